-- A new fencing token, if the scope is held.
--
-- The greater of the last one plus one and the server's clock in microseconds: where the counter is durable it grows
-- also when the clock goes back; where a crash or a failover lost the counter it grows with the clock.
--
-- KEYS: session, scope, counter. ARGV: the session's value, the entry that holds, SESSION.NUMBER,MODE,h,;
-- Reply: the token as text; 0 the scope is not held; -1 and -2 as in try.lua; -3 no number is left.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
local line = redis.call('GET', KEYS[2])
if not (line and line:find(ARGV[2], 1, true)) then
    return 0
end
local time = redis.call('TIME')
local token = math.max((tonumber(redis.call('GET', KEYS[3])) or 0) + 1, time[1] * 1000000 + time[2])
-- A number of Lua's counts no further.
if token >= 9007199254740992 then
    return -3
end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[3], text)
return text
