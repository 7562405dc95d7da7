-- Stands in line for the scope, and takes it when it is this session's turn.
--
-- KEYS: session, scope. ARGV: the session's value, SESSION.NUMBER of this request, mode.
-- Reply: 0 taken; else after how many milliseconds to ask again, if no wake comes: then something that is in the way may
-- have ended; -1 and -2 as in try.lua.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
-- @line
local number = ARGV[2]:sub(18)
local line, shrunk = read(number)
local at = place(line)
local changed = shrunk
if not at then
    local time = redis.call('TIME')
    local since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    at = #line + 1
    line[at] = { session = own, number = number, mode = ARGV[3], state = 'w', since = since }
    changed = true
end
local taken = line[at].state == 'h'
if not taken and may_hold(line, at) then
    line[at].state, line[at].since = 'h', ''
    taken, changed = true, true
end
if changed then
    write(line)
end
if shrunk then
    wake(line)
end
if taken then
    return 0
end
local soonest
for other, entry in ipairs(line) do
    if is_in_the_way(line, other, at) and not (soonest and soonest <= entry.left) then
        soonest = entry.left
    end
end
return math.max(soonest or 1, 1)
