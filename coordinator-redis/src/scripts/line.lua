-- What the scripts share; it takes the place of a line that says `-- @line`.
--
-- The value of a scope's key is the line of who holds the scope and who waits for it, in the order in which they came:
-- one entry SESSION.NUMBER,MODE,STATE,SINCE; after the other. MODE is x or s, STATE h (holds) or w (waits), SINCE the
-- moment from which it waits, in milliseconds. Without an entry there is no key.
--
-- The value of a session's key is LINK FLOOR NAME: the number of the connection whose requests count, and how many
-- milliseconds the key has left when the session has not renewed it for so long that it waits no more. A holder lives
-- as long as its session's key does.
--
-- KEYS[1] is the own session, KEYS[2] the scope.
local prefix, own = KEYS[1]:sub(1, -19), KEYS[1]:sub(-16)

-- The living entries, and whether others were dropped: those of dead sessions, of waiters that fell silent, and what an
-- earlier request of this session, that was given up, may have left.
local function read(number)
    local line, shrunk = {}, false
    local entries = (redis.call('GET', KEYS[2]) or ''):gmatch('(%x+)%.(%d+),(%a),(%a),(%d*);')
    for session, by, mode, state, since in entries do
        local entry = { session = session, number = by, mode = mode, state = state, since = since }
        local lives
        if session == own then
            lives = tonumber(by) >= tonumber(number)
        else
            local key = prefix .. 'i:' .. session
            local value = redis.call('GET', key)
            if value then
                local floor
                floor, entry.name = value:match('^%d+ (%d+) (.*)$')
                entry.left = redis.call('PTTL', key) - (state == 'w' and tonumber(floor) or 0)
                lives = state == 'h' or entry.left > 0
            end
        end
        if lives then
            line[#line + 1] = entry
        else
            shrunk = true
        end
    end
    return line, shrunk
end

local function write(line)
    -- First, since it is also allowed when the memory is full, and lets the SET behind it pass.
    redis.call('DEL', KEYS[2])
    if #line > 0 then
        local text = {}
        for at, entry in ipairs(line) do
            text[at] = entry.session .. '.' .. entry.number .. ',' .. entry.mode .. ',' .. entry.state .. ','
                .. entry.since .. ';'
        end
        redis.call('SET', KEYS[2], table.concat(text), 'PX', @reap)
    end
end

-- Where this session stands in the line.
local function place(line)
    for at, entry in ipairs(line) do
        if entry.session == own then
            return at
        end
    end
end

local function is_in_the_way(line, other, at)
    return other ~= at and (line[other].state == 'h' or other < at)
end

-- Whether the entry at that place may hold: nobody passes an exclusive waiter.
local function may_hold(line, at)
    for other, entry in ipairs(line) do
        if is_in_the_way(line, other, at) and (entry.mode == 'x' or line[at].mode == 'x') then
            return false
        end
    end
    return true
end

-- Tells the waiters that may hold now: they have to ask, so that who is dead or frozen eats no grant.
local function wake(line)
    for at, entry in ipairs(line) do
        if entry.state == 'w' then
            if not may_hold(line, at) then
                return
            end
            redis.call('PUBLISH', prefix .. 'w:' .. entry.session, KEYS[2]:sub(-64))
        end
    end
end
