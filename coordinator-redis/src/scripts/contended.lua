-- Whether another session waits for the scope.
--
-- KEYS: session, scope. ARGV: the session's value, SESSION.NUMBER of the request that holds, mode.
-- Reply: 1 somebody waits; 0 nobody does; -1 and -2 as in try.lua.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
if redis.call('GET', KEYS[2]) == ARGV[2] .. ',' .. ARGV[3] .. ',h,;' then
    return 0
end
-- @line
for _, entry in ipairs((read('0'))) do
    if entry.state == 'w' and entry.session ~= own then
        return 1
    end
end
return 0
