-- What is the same of all members whoever beats: it is added up once a beat.

-- live reports whether a node is heard of.
local function live(m) return account.now - m.seen <= SILENT end

-- sums are of each axis: its limit (Account.limit), the highest that any member knows (Account.highestLimits), the largest
-- burst, what is held, what may be refunded, what waits at live members
-- and how much of that is about to go, and what all may use.
local sums

local function survey()
  sums = {}
  for k = 1, AXES do
    local limit, reserve, burst, held, goes, waiting = 0, 0, 0, 0, 0, 0
    local highest, refundable, may = 0, 0, 0
    for _, name in ipairs(account.names) do
      local m = members[name]
      burst, held = max(burst, m.burst[k]), held + m.held[k]
      highest = max(highest, m.limits[k] - m.reserve[k], min(m.limits[k], 1))
      refundable, may = refundable + m.refundable[k], may + m.may[k]
      if live(m) then
        local known = m.limits[k]
        if known > 0 then
          if limit == 0 or known < limit then limit = known end
          reserve = max(reserve, m.reserve[k])
        end
        waiting = waiting + m.waiting[k]
        if m.grant[k][LEVEL] >= m.waiting[k] then goes = goes + m.waiting[k] end
      end
    end
    limit = max(limit - reserve, min(limit, 1))
    local capped = account.capped and account.capped[k] or 0
    if capped > 0 and account.now < account.capEnds then limit = min(limit, capped) end
    sums[k] = {limit = limit, burst = burst, held = held, goes = goes, waiting = waiting, highest = highest, refundable = refundable, may = may}
  end
end
