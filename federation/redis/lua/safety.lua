-- What keeps the limit (safety.go).

-- grown is what a rate comes to in so many milliseconds, beside parts of a unit.
local function grown(parts, rate, ms) return floor((parts + rate * ms) / WINDOW) end

-- within is the most that may be used of an envelope in so many milliseconds, by a node that has
-- parts of a unit already.
local function within(e, parts, ms)
  local left = e[LEFT]
  if left <= 0 then return 0 end
  if ms > left then ms = left elseif ms < 0 then ms = 0 end
  local most = e[LEVEL] + floor((parts + e[RATE] * ms) / WINDOW)
  if most < 0 then return 0 end
  return most
end

-- sane is an envelope as a node may have it at all.
local function sane(level, rate, left)
  return {min(max(level, -MAX_BOOKED), MAX_BOOKED), min(max(rate, 0), MAX_LIMIT), min(max(left, 0), TTL)}
end

-- bound is the most that a node may use of an axis within so many milliseconds of its last beat.
local function bound(m, k, ms)
  local h, g = within(m.holding[k], m.parts[k], ms), within(m.grant[k], m.parts[k], ms)
  if h > g then return h end
  return g
end

-- elapsed is how long it can be by a node's clock, if by the store's it is so long.
local function elapsed(ms) return ms + ceil(ms / 999) end

-- expiry is the latest time at which a node may use anything that it is known to have.
local function expiry(m)
  local left = 0
  for k = 1, AXES do
    local h, g = m.holding[k], m.grant[k]
    if h[LEFT] > left and within(h, m.parts[k], h[LEFT]) > 0 then left = h[LEFT] end
    if g[LEFT] > left and within(g, m.parts[k], g[LEFT]) > 0 then left = g[LEFT] end
  end
  return m.seen + left
end

-- charge adds up what all others may use by the end of each slot from now to last. Where one can
-- use no more it stays as it is, until its expiry has left the Window.
local function charge(of, k, now, last)
  local charged, steps = {}, {}
  for slot = now, last + 1 do charged[slot], steps[slot] = 0, 0 end
  for _, name in ipairs(account.names) do
    local m, until_ = members[name], last
    if m == of then
      until_ = now - 1
    elseif slotOf(m.seen) + SLOTS < last then -- for most it is the last, whenever they expire
      until_ = min(last, slotOf(expiry(m)) + SLOTS)
    end
    local h, g, sent = m.holding[k], m.grant[k], m.sent
    local most = max(h[LEFT], g[LEFT])
    for slot = now, until_ do
      local ms = elapsed((slot + 1) * SLOT - sent)
      local x, y = within(h, m.parts[k], ms), within(g, m.parts[k], ms)
      if y > x then x = y end
      if ms >= most then
        steps[slot], steps[until_ + 1] = steps[slot] + x, steps[until_ + 1] - x
        break
      end
      charged[slot] = charged[slot] + x
    end
  end
  local steady = 0
  for slot = now, last do
    steady = steady + steps[slot]
    charged[slot] = charged[slot] + steady
  end
  return charged
end

-- late is what was used up to a slot and is booked after it, by slot; and of all slots after now.
local function late(k, now)
  local at, sum = {}, 0
  for _, name in ipairs(account.names) do
    for _, x in ipairs(members[name].later) do
      if x[1] > now then
        at[x[1]] = (at[x[1]] or 0) + x[1 + k]
        sum = sum + x[1 + k]
      end
    end
  end
  return at, sum
end

-- rooms tells, slot by slot, what is left of a limit for one node, at the end of the slot, and how
-- long after the node's last beat that may be by its clock.
local function rooms(of, k, limit)
  local now = slotOf(account.now)
  local last = max(now + floor(TTL / SLOT) + 1, bookLast(booked), bookLast(gone))
  local used = bookSum(booked, now - SLOTS, now - 1, k)
  local lost = bookSum(gone, now - SLOTS, last, k)
  local others = charge(of, k, now, last)
  local at, after = late(k, now)
  local room, ms = {}, {}
  for slot = now, last do
    used = used + bookAt(booked, slot, k)
    if slot > now then
      used = used - bookAt(booked, slot - SLOTS - 1, k)
      lost = lost - bookAt(gone, slot - SLOTS - 1, k)
      after = after - (at[slot] or 0)
    end
    room[#room + 1] = limit - (used + sums[k].held + lost + after + others[slot])
    ms[#ms + 1] = elapsed((slot + 1) * SLOT - of.sent)
  end
  return room, ms
end

-- cut makes an envelope small enough for the limit, so that what the node may use fits at the end
-- of every slot.
local function cut(of, k, limit, e)
  e = sane(min(e[LEVEL], limit), min(e[RATE], limit), e[LEFT])
  local room, ms = rooms(of, k, limit)
  local best, most = {0, 0, 0}, 0
  for part = 4, 0, -1 do
    local level, rate = e[LEVEL], floor(e[RATE] * part / 4)
    for i = 1, #room do
      local fits = room[i] - grown(of.parts[k], rate, min(ms[i], e[LEFT]))
      if fits < level then level = fits end
    end
    local gets = level * WINDOW + of.parts[k] + rate * min(BEAT, e[LEFT])
    if e[LEFT] <= 0 or level < -MAX_LIMIT then gets = 0 end
    if gets > most then best, most = {level, rate, e[LEFT]}, gets end
  end
  return best
end
