-- The account of an owner's limits (package federation/parts), under the same names and in the
-- same order.
--
-- KEYS[1] is the owner's. ARGV is the instance, seq, 1 if it has left, and of each claim name, kind, limit, ends,
-- used, held, part, want, need. It returns seq, and of each claim part, others, held.
--
-- All lies in one value: {VERSION, now, members}, with members of {instance, seq, seen, holds}.
local VERSION = 1
local TTL, WINDOW = 2500, 60000
local MAX_SUM = 4e15
local INSTANCE, SEQ, SEEN, HOLDS = 1, 2, 3, 4
-- Of a hold. USED and WANT are as of the claim.
local NAME, KIND, ENDS, TOLD, USED, HELD, HIGH, WANT, NEED, SINCE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local floor, min, max = math.floor, math.min, math.max
local now, members = 0, {}

local function until_(h)
  if h[KIND] == 'rolling' then return h[TOLD] + TTL + WINDOW end
  if h[KIND] == 'period' then return h[ENDS] + WINDOW end
  return h[TOLD] + TTL
end

local function over(h) return until_(h) < now end

local function belief(h) return max(h[HIGH], h[USED]) end

local function named(holds, name)
  for _, h in ipairs(holds) do
    if h[NAME] == name then return h end
  end
end

-- drop takes out of a list what is to be dropped.
local function drop(list, dropped)
  for i = #list, 1, -1 do
    if dropped(list[i]) then table.remove(list, i) end
  end
end

local function gone(m) return #m[HOLDS] == 0 and m[SEEN] + TTL < now end

local function idle(h) return belief(h) == 0 and h[WANT] == 0 or over(h) end

-- age drops what counts no more, and who has nothing left.
local function age()
  for _, m in ipairs(members) do drop(m[HOLDS], over) end
  drop(members, gone)
end

-- member is a process that is known, now at the latest.
local function member(instance)
  for _, m in ipairs(members) do
    if m[INSTANCE] == instance then return m end
  end
  members[#members + 1] = {instance, 0, 0, {}}
  return members[#members]
end

-- tell replaces what a member has told before, and returns the limits of its claims.
local function tell(m, seq)
  local before, holds, limits = m[HOLDS], {}, {}
  for i = 4, #ARGV, 9 do
    local limit, ends, used, held = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
    local part, want, need = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8])
    local since = 0
    if need > part then
      local was = named(before, ARGV[i])
      since = was and was[SINCE] > 0 and was[SINCE] or now
    end
    holds[#holds + 1] = {ARGV[i], ARGV[i + 1], ends, now, used, held, part, max(want, need, used), need, since}
    limits[#limits + 1] = limit
  end
  for _, h in ipairs(before) do
    if h[KIND] ~= 'slots' and not named(holds, h[NAME]) then -- it has left it
      holds[#holds + 1] = {h[NAME], h[KIND], h[ENDS], h[TOLD], h[USED], 0, 0, h[USED], 0, 0}
    end
  end
  m[SEQ], m[SEEN], m[HOLDS] = seq, now, holds
  return limits
end

-- share divides so much by max-min.
local function share(live, avail)
  local order, parts, level = {}, {}, -1
  for i, x in ipairs(live) do -- in the order of what they want
    local at = i
    while at > 1 and live[order[at - 1]][WANT] > x[WANT] do
      order[at], at = order[at - 1], at - 1
    end
    order[at] = i
  end
  for n, i in ipairs(order) do
    local want = live[i][WANT]
    parts[i] = min(want, floor(avail / (#order - n + 1)))
    avail = avail - parts[i]
    if level < 0 and parts[i] < want then level = parts[i] end
  end
  return parts, level
end

local function fit(live, avail)
  for _, x in ipairs(live) do
    avail = avail - x[WANT]
    if avail < 0 then return false end
  end
  return true
end

-- call is what has to be free at once for the call that waits longest.
local function call(h)
  if h[KIND] == 'period' then return h[NEED] end
  return h[NEED] - h[USED]
end

-- target is what one of those who are heard of should have of avail.
local function target(h, live, avail)
  if fit(live, avail) then return h[WANT] end
  local even, level = share(live, avail)
  local first
  for i, x in ipairs(live) do
    if x[SINCE] > 0 and call(x) > level and (not first or x[SINCE] < live[first][SINCE]) then first = i end
  end
  if first then
    local least = min(call(live[first]), avail)
    local rest = {}
    for i, x in ipairs(live) do
      if i ~= first then rest[#rest + 1] = x end
    end
    even = share(rest, avail - least)
    table.insert(even, first, least)
  end
  for i, x in ipairs(live) do
    if x == h then return even[i] end
  end
end

-- grant answers a claim: its part, what others use, and what of that they hold.
local function grant(m, h, limit)
  if over(h) then return 0, 0, 0 end
  local free, avail, others, held, live = limit, limit, 0, 0, {}
  for _, o in ipairs(members) do
    local x = h
    if o ~= m then
      x = named(o[HOLDS], h[NAME])
      if x then free = max(free - belief(x), 0) end
    end
    local counts = x and x[USED]
    if x and x[TOLD] + TTL >= now then
      live[#live + 1] = x
      if o ~= m then held = min(held + x[HELD], MAX_SUM) end
    elseif x then
      counts = belief(x) -- nobody gives back what it has not used
      avail = max(avail - counts, 0)
    end
    if x and o ~= m then others = min(others + counts, MAX_SUM) end
  end
  local part = min(target(h, live, avail), free)
  h[HIGH] = max(h[HIGH], part)
  if h[NEED] <= part then h[SINCE] = 0 end
  return part, others, held
end

-- bequeath takes over what one who leaves used of periods.
local function bequeath(m)
  local keep, left = {}, {}
  for _, h in ipairs(m[HOLDS]) do
    local list = h[KIND] == 'period' and left or keep
    list[#list + 1] = h
  end
  m[HOLDS] = keep
  for _, h in ipairs(left) do
    local to = member('')
    to[SEEN] = now
    local x = named(to[HOLDS], h[NAME])
    if not x then
      x = {h[NAME], 'period', 0, 0, 0, 0, 0, 0, 0, 0}
      to[HOLDS][#to[HOLDS] + 1] = x
    end
    x[TOLD], x[ENDS], x[USED] = now, max(x[ENDS], h[ENDS]), min(x[USED] + belief(h), MAX_SUM)
    x[WANT] = x[USED]
  end
end

-- forget is in how many milliseconds the account may be forgotten.
local function forget()
  local last = now
  for _, m in ipairs(members) do
    last = max(last, m[SEEN] + TTL)
    for _, h in ipairs(m[HOLDS]) do last = max(last, until_(h)) end
  end
  return last - now
end

local blob = redis.call('GET', KEYS[1])
if blob then
  local kept = cmsgpack.unpack(blob)
  if type(kept) ~= 'table' or kept[1] ~= VERSION then return redis.error_reply('FOREIGN it is no account of version ' .. VERSION) end
  now, members = kept[2], kept[3]
end
now = max(now, clock())
age()
local m, seq, reply = member(ARGV[1]), tonumber(ARGV[2]), {0}
if seq > m[SEQ] then -- else it came late, or twice
  reply[1] = seq
  for i, limit in ipairs(tell(m, seq)) do
    reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = grant(m, m[HOLDS][i], limit)
  end
  drop(m[HOLDS], idle)
  if ARGV[3] == '1' then bequeath(m) end
end
redis.call('SET', KEYS[1], cmsgpack.pack({VERSION, now, members}), 'PX', forget() + 1)
return reply
