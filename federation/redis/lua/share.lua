-- How much each node gets (share.go). None of it is needed for the limit to be kept.
--
-- Floats are added and multiplied in the same order as there, so they come to the same.

-- live reports whether a node is heard of.
local function live(m) return account.now - m.seen <= SILENT end

-- limitOf is the least that any node heard of knows, less the most that any wants to be withheld;
-- 0 is none.
local function limitOf(k)
  local limit, reserve = 0, 0
  for _, name in ipairs(account.names) do
    local m = members[name]
    if m.limits[k] > 0 and live(m) then
      if limit == 0 or m.limits[k] < limit then limit = m.limits[k] end
      reserve = max(reserve, m.reserve[k])
    end
  end
  return max(limit - reserve, min(limit, 1))
end

-- fill lets the levels rise by the limits, and fall by what was used.
local function fill(used)
  for k = 1, AXES do
    local f, burst = account.fill[k], 0
    for _, name in ipairs(account.names) do burst = max(burst, members[name].burst[k]) end
    local second = floor(limitOf(k) * 1000 / WINDOW)
    if f.at == 0 then -- a second at the start, and not a burst: it may be a restart
      f.at, f.level = account.now, second
    end
    local rise = floor(f.rate * min(account.now - f.at, WINDOW) / WINDOW)
    f.level = min(f.level + rise, max(burst, second)) - used[k]
    f.at = account.now
  end
end

-- A curve is a string of its points, each of three floats: level, tokens, requests. Of many it is read
-- only where it is looked at.
local POINT, SIZE = '<ddd', 24

local function levelAt(curve, i) return (struct.unpack('<d', curve, (i - 1) * SIZE + 1)) end

-- lines are the straight pieces of the live members' curves at the level that was looked at last, in
-- the order of the members' names: each from a level to another.
local lines

local fresh = {} -- curves that this beat has brought, by name

-- readLines gets them. Where all can have what they ask for, the curves' last points suffice.
local function readLines(all)
  local names, known = {}, {}
  lines = {}
  for _, name in ipairs(account.names) do
    if live(members[name]) then names[#names + 1] = name end
  end
  if all then known = readRaw('c:', names) end
  for n, name in ipairs(names) do
    local m = members[name]
    local curve = all and (fresh[name] or known[name]) or m.top
    lines[n] = {of = m, curve = curve, points = #curve / SIZE, from = 0, to = 0}
  end
end

-- aim finds the piece of a line that a level is on: before the first point that is above it.
local function aim(l, level)
  local curve, lo, hi = l.curve, 1, l.points + 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if level < levelAt(curve, mid) then hi = mid else lo = mid + 1 end
  end
  local from, tokens, requests, to, t, r = 0, 0, 0
  if lo > 1 then from, tokens, requests = struct.unpack(POINT, curve, (lo - 2) * SIZE + 1) end
  if lo <= l.points then
    to, t, r = struct.unpack(POINT, curve, (lo - 1) * SIZE + 1)
    l.width = to - from
  else -- it is level from here
    to, t, r = math.huge, tokens, requests
    l.width = 1
  end
  l.from, l.to = from, to
  l.base1, l.rise1, l.base2, l.rise2 = tokens, t - tokens, requests, r - requests
end

-- usesAt are what all use at a level, of each axis.
local function usesAt(level)
  local tokens, requests = 0, 0
  for n = 1, #lines do
    local l = lines[n]
    if level < l.from or level >= l.to then aim(l, level) end
    local part = (level - l.from) / l.width
    tokens = tokens + (l.base1 + l.rise1 * part)
    requests = requests + (l.base2 + l.rise2 * part)
  end
  return {tokens, requests}
end

-- highest is a level at which everybody has what is asked for.
local function highest()
  local h = 0
  for _, l in ipairs(lines) do
    if l.points > 0 then h = max(h, levelAt(l.curve, l.points)) end
  end
  return h
end

-- fits reports whether what is used at a level is there.
local function fits(level, capacity, limits)
  local uses = usesAt(level)
  for k = 1, AXES do
    if limits[k] ~= 0 and uses[k] > capacity[k] then return false end
  end
  return true
end

-- water is the level at which all that is used comes to what there is, of the axis that is
-- exhausted first; negative if all can have what they ask for.
local function water(capacity, limits)
  readLines(false)
  local high = highest()
  if fits(high, capacity, limits) then return -1 end
  readLines(true)
  local low = 0
  for _ = 1, 60 do
    local mid = (low + high) / 2
    if fits(mid, capacity, limits) then low = mid else high = mid end
  end
  return low
end

-- ahead is what a node has probably used since its last beat, and will use of what it may use at
-- once.
local function ahead(m, k)
  local e = m.grant[k]
  if e[LEFT] <= 0 then e = m.holding[k] end
  return within(e, account.now - m.sent)
end

-- capacityOf is how much of an axis may be handed out a Window from now on, by all.
local function capacityOf(k, limit)
  local now = slotOf(account.now)
  local room = limit - bookSum(booked, now - SLOTS, now, k)
  for _, name in ipairs(account.names) do
    local m = members[name]
    room = room - (m.held[k] + ahead(m, k))
  end
  local best = limit * SLOTS / (SLOTS + 1)
  local second = max(1, floor(1000 / SLOT)) -- in slots
  local seconds = floor(SLOTS / second)
  for sec = 1, seconds do
    local leaving = now - SLOTS + (sec - 1) * second
    room = room + bookSum(booked, leaving, leaving + second - 1, k)
    if sec >= 2 then best = min(best, (room - 0.5 * limit / SLOTS) * seconds / sec) end
  end
  return max(0, best)
end

-- portion is a node's part of an axis at a level, at which all use so much.
local function portion(of, k, level, uses, capacity)
  local own = 0
  for _, l in ipairs(lines) do
    if l.of == of then
      local base, rise = l.base1, l.rise1
      if k == 2 then base, rise = l.base2, l.rise2 end
      own = base + rise * ((level - l.from) / l.width)
    end
  end
  local spare = max(0, capacity - uses[k])
  local part = spare / #lines
  if uses[k] > 0 then part = part / 2 + spare / 2 * (own / uses[k]) end
  return own + part
end

-- atOnce is what a node may use at once (Account.level).
local function atOnce(of, k, rate, part)
  local had = min(max(0, of.holding[k][LEVEL]), of.largest[k] + floor(rate / 240))
  if of.holding[k][LEFT] <= 0 then had = 0 end
  local spare = account.fill[k].level - had
  for _, name in ipairs(account.names) do
    local m = members[name]
    if m ~= of and live(m) then spare = spare - max(0, m.grant[k][LEVEL]) end
  end
  if account.level >= 0 then -- others want it, too
    spare = whole(max(0, spare) * part)
  end
  local want = of.waiting[k] - had - floor(rate * BEAT / WINDOW)
  return had + max(0, min(want, spare))
end

-- fair lowers the level of an envelope until the node keeps to its part of the room that there
-- will be for all.
local function fair(of, k, limit, e, part)
  local now = slotOf(account.now)
  local room = limit - bookSum(booked, now - SLOTS - 1, now - 1, k)
  for _, name in ipairs(account.names) do room = room - members[name].held[k] end
  for slot = now, now + floor(TTL / SLOT) + 1 do
    room = room + bookAt(booked, slot - SLOTS - 1, k) - bookAt(booked, slot, k)
    local own = whole(part * max(0, room))
    e[LEVEL] = min(e[LEVEL], own - grown(e[RATE], min(e[LEFT], (slot + 1) * SLOT - of.sent)))
  end
  return e
end

-- grant is what a node gets for the next while.
local function grant(m)
  local limits, capacity = {}, {}
  for k = 1, AXES do
    limits[k] = limitOf(k)
    capacity[k] = capacityOf(k, limits[k])
    account.fill[k].rate = whole(capacity[k])
  end
  account.level = water(capacity, limits)
  local level = account.level
  if level < 0 then level = highest() end
  local uses = usesAt(level)
  local granted = {}
  for k = 1, AXES do
    granted[k] = {0, 0, 0}
    if limits[k] ~= 0 then
      local share = portion(m, k, level, uses, capacity[k])
      local part = share / max(1, capacity[k])
      local e = {0, whole(share), TTL}
      e[LEVEL] = atOnce(m, k, e[RATE], min(1, part))
      granted[k] = cut(m, k, limits[k], fair(m, k, limits[k], e, part))
    end
  end
  return granted
end
