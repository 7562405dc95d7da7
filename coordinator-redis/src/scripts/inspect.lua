-- Who holds the scope and who waits for it; takes and changes nothing.
--
-- KEYS: session, scope; whether the session lives does not matter.
-- Reply: for each living entry: the instance's name (empty: the own one), mode, state, since when it waits in ms.
-- @line
local seen = {}
for at, entry in ipairs((read('0'))) do
    seen[at] = { entry.name or '', entry.mode, entry.state, entry.since }
end
return seen
