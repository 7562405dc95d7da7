-- Takes the scope if it is free and nobody waits for it.
--
-- KEYS: session, scope. ARGV: the session's value, SESSION.NUMBER of this request, mode.
-- Reply: 1 taken, also by an earlier send of this request; 0 not; -1 the session has ended; -2 another connection of the
-- session has replaced this one.
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
    return value and -2 or -1
end
if redis.call('SET', KEYS[2], ARGV[2] .. ',' .. ARGV[3] .. ',h,;', 'NX', 'PX', @reap) then
    return 1
end
-- @line
local number = ARGV[2]:sub(18)
local line, shrunk = read(number)
local taken = place(line) ~= nil
if not taken then
    taken = true
    for _, entry in ipairs(line) do
        taken = taken and entry.mode == 's' and ARGV[3] == 's'
    end
    if taken then
        line[#line + 1] = { session = own, number = number, mode = ARGV[3], state = 'h', since = '' }
        write(line)
    end
end
if shrunk then
    write(line)
    wake(line)
end
return taken and 1 or 0
