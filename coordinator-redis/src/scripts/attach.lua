-- Makes this connection the one whose requests count for the session; the first one also begins the session.
--
-- KEYS: session. ARGV: its value from now on, its time to live in milliseconds, the number of the connection from 1.
-- Reply: 1 attached; -1 the session has ended; -2 a later connection is attached already.
local value = redis.call('GET', KEYS[1])
if value then
    if tonumber(value:match('^%d+')) >= tonumber(ARGV[3]) then
        return -2
    end
elseif ARGV[3] ~= '1' then
    return -1
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
