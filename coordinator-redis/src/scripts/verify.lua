-- Renews the session, and the keys of the scopes named; without scopes it is the heartbeat.
--
-- KEYS: session, then scopes. ARGV: the session's value, its time to live in milliseconds, then for each scope the entry
-- that it has to hold there, SESSION.NUMBER,MODE,h,;
-- Reply: which of the scopes, counted from 0, are not held; -1 and -2 as in try.lua.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local missing = {}
for at = 2, #KEYS do
    local line = redis.call('GET', KEYS[at])
    if line and line:find(ARGV[at + 1], 1, true) then
        redis.call('PEXPIRE', KEYS[at], @reap)
    else
        missing[#missing + 1] = at - 2
    end
end
return missing
