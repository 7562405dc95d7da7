-- Gives up what this request has of the scope: the lock, or the place in line. Wakes who may hold now.
--
-- KEYS: session, scope. ARGV: the session's value, SESSION.NUMBER of the request, mode.
-- Reply: 1 the lock was held; 0 it was not; -1 and -2 as in try.lua.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
if redis.call('GET', KEYS[2]) == ARGV[2] .. ',' .. ARGV[3] .. ',h,;' then
    return redis.call('DEL', KEYS[2])
end
-- @line
local number = ARGV[2]:sub(18)
local line, shrunk = read(number)
local at = place(line)
local held = 0
-- A later request of this session is none of this one's business.
if at and line[at].number == number then
    held = line[at].state == 'h' and 1 or 0
    table.remove(line, at)
    shrunk = true
end
if shrunk then
    write(line)
    wake(line)
end
return held
