-- How much each node gets (share.go). None of it is needed for the limit to be kept.
--
-- Floats are added and multiplied in the same order as there, so they come to the same.

-- fill lets the levels rise by the limits, and fall by what was used.
local function fill(used)
  for k = 1, AXES do
    local f = account.fill[k]
    local second = floor(sums[k].limit * 1000 / WINDOW)
    if f.at == 0 then -- a second at the start, and not a burst: it may be a restart
      f.at, f.level = account.now, second
    end
    local rise = f.rate * min(account.now - f.at, WINDOW)
    f.level = min(f.level + floor(rise / WINDOW), max(sums[k].burst, second)) - used[k]
    f.at = account.now - floor(rise % WINDOW / max(1, f.rate)) -- less than a unit is for the next time
  end
end

-- ahead is what a node has probably used since its last beat, and will use of what it may use at
-- once.
local function ahead(m, k)
  local e = m.grant[k]
  if e[LEFT] <= 0 then e = m.holding[k] end
  return within(e, m.parts[k], account.now - m.sent)
end

-- steady is the capacity of a limit that is always used in full.
local function steady(limit) return limit * SLOTS / (SLOTS + 1) end

-- capacityOf is how much of an axis may be handed out a Window from now on, by all.
local function capacityOf(k, limit)
  local now = slotOf(account.now)
  local room = limit - bookSum(booked, now - SLOTS, now, k) - sums[k].held
  for _, name in ipairs(account.names) do room = room - ahead(members[name], k) end
  sums[k].room = room
  local best = steady(limit)
  local second = max(1, floor(1000 / SLOT)) -- in slots
  local seconds = floor(SLOTS / second)
  for sec = 1, seconds do
    local leaving = now - SLOTS + (sec - 1) * second
    room = room + bookSum(booked, leaving, leaving + second - 1, k)
    if sec >= 2 then best = min(best, (room - 0.5 * limit / SLOTS) * seconds / sec) end
  end
  return max(0, best)
end

-- portion is a node's part of an axis at a level at which it uses so much, and all so much.
local function portion(own, all, capacity)
  local spare = max(0, capacity - all)
  return own + spare / max(1, capacity) * (own + spare / heads)
end

-- saved are the savings, so far as there is room for them, beyond a second and all that waits.
local function saved(k)
  return min(account.fill[k].level, sums[k].room) - floor(sums[k].limit * 1000 / WINDOW) - sums[k].waiting
end

-- atOnce is what a node may use at once (Account.level).
local function atOnce(of, k, rate, part)
  local had = min(max(0, of.holding[k][LEVEL]), of.ready[k] + floor(rate / 240))
  if of.holding[k][LEFT] <= 0 then had = 0 end
  local spare = account.fill[k].level - had - sums[k].goes -- it has no grant of its own yet
  local want = of.waiting[k] - had
  if want > spare - floor(sums[k].limit * 1000 / WINDOW) then
    want = want - floor(rate * BEAT / WINDOW)
    if account.level >= 0 then -- others want it, too
      spare = whole(max(0, spare) * part)
    end
  end
  return had + max(0, min(want, spare))
end

-- fair lowers the level of an envelope until the node keeps to its part of the room that there
-- will be for all.
local function fair(of, k, limit, e, part)
  local now = slotOf(account.now)
  local room = limit - bookSum(booked, now - SLOTS - 1, now - 1, k) - sums[k].held
  for slot = now, now + floor(TTL / SLOT) + 1 do
    room = room + bookAt(booked, slot - SLOTS - 1, k) - bookAt(booked, slot, k)
    local own = whole(part * max(0, room))
    e[LEVEL] = min(e[LEVEL], own - grown(of.parts[k], e[RATE], min(e[LEFT], (slot + 1) * SLOT - of.sent)))
  end
  return e
end

-- grant is what a node gets for the next while.
local function grant(m)
  local limits, capacity = {}, {}
  for k = 1, AXES do
    limits[k] = sums[k].limit
    capacity[k] = capacityOf(k, limits[k])
  end
  local own, all
  account.level, own, all = water(m, limits, capacity)
  local granted = {}
  for k = 1, AXES do
    -- a saved rate needs no string, as in a pool's own pace: saved keeps to the room
    account.fill[k].rate = whole(account.level < 0 and steady(limits[k]) or capacity[k])
    granted[k] = {0, 0, 0}
    if limits[k] ~= 0 then
      local share = portion(own[k], all[k], capacity[k])
      local part = share / max(1, capacity[k])
      local e = {0, whole(ceil(share)), TTL}
      e[LEVEL] = atOnce(m, k, e[RATE], min(1, part))
      local spare = saved(k)
      if spare > 0 then
        e[LEVEL] = max(e[LEVEL], m.waiting[k], min(m.ready[k], spare + m.refundable[k]))
      else
        e = fair(m, k, limits[k], e, part)
      end
      granted[k] = cut(m, k, limits[k], e)
    end
  end
  return granted
end
