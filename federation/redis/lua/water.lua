-- How much each unit of weight gets (water.go).

-- A curve is a string of its points, each of three floats: level, tokens, requests. Before them is
-- zero, and after them a point without end, so that each level lies between two.
local POINT, TWO, SIZE = '<ddd', '<dddddd', 24

local function levelAt(curve, i) return (struct.unpack('<d', curve, (i - 1) * SIZE + 1)) end

-- curveOf is a curve, and its last point.
local function curveOf(points)
  local curve, top = {struct.pack(POINT, 0, 0, 0)}, {0, 0, 0}
  for i, p in ipairs(points) do
    top = {p.Level, p.Use[1], p.Use[2]}
    curve[i + 1] = struct.pack(POINT, unpack(top))
  end
  curve[#curve + 1] = struct.pack(POINT, math.huge, top[2], top[3])
  return table.concat(curve), top
end

-- above is the first point of a curve above a level, the last at most.
local function above(curve, level)
  local lo, hi = 2, #curve / SIZE
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if level < levelAt(curve, mid) then hi = mid else lo = mid + 1 end
  end
  return lo
end

-- NEAR is how many pieces of a curve are kept with the member on either side of the one on which the
-- water stands: it does not rise or fall by much in the second until the next beat.
local NEAR = 3

-- near is what is kept.
local function near(curve, level)
  if level < 0 then level = math.huge end
  local i = above(curve, level)
  return string.sub(curve, max(0, i - 2 - NEAR) * SIZE + 1, (i + NEAR) * SIZE)
end

local fresh = {} -- curves that this beat has brought, by name

-- lines are the pieces of the live members' curves at the level that was looked at last, in the
-- order of the members' names.
local lines

-- heads is how many there are.
local heads

-- aim finds the piece of a line that a level is on, and reports whether it is in what is known of the
-- curve.
local function aim(l, level)
  local i = above(l.curve, level)
  local from, tokens, requests, to, t, r = struct.unpack(TWO, l.curve, (i - 2) * SIZE + 1)
  if level < from or level >= to then return false end
  l.from, l.to, l.tokens, l.requests = from, to, tokens, requests
  l.tokensSlope, l.requestsSlope = (t - tokens) / (to - from), (r - requests) / (to - from)
  return true
end

-- aimAll does so for all, and gets the curves of which too little is known.
local function aimAll(level)
  local names, far = {}, {}
  for n = 1, heads do
    local l = lines[n]
    if (level < l.from or level >= l.to) and not aim(l, level) then
      names[#names + 1], far[#far + 1] = l.name, l
    end
  end
  local known = readRaw('c:', names)
  for _, l in ipairs(far) do
    l.curve = known[l.name]
    aim(l, level)
  end
end

-- usesAt is how the sum of all lines goes near a level: from where to where, what is used there, and how
-- fast that rises.
local function usesAt(level)
  aimAll(level)
  local from, to, tokens, requests, tokensSlope, requestsSlope = 0, math.huge, 0, 0, 0, 0
  for n = 1, heads do
    local l = lines[n]
    if l.from > from then from = l.from end
    if l.to < to then to = l.to end
    local up = level - l.from
    tokens, requests = tokens + (l.tokens + l.tokensSlope * up), requests + (l.requests + l.requestsSlope * up)
    tokensSlope, requestsSlope = tokensSlope + l.tokensSlope, requestsSlope + l.requestsSlope
  end
  return from, to, {tokens, requests}, {tokensSlope, requestsSlope}
end

-- crest is a level at which everybody has what is asked for, and what is used there.
local function crest()
  local high, tokens, requests = 0, 0, 0
  heads = 0
  for _, name in ipairs(account.names) do
    local m = members[name]
    if live(m) then
      heads = heads + 1
      local top = m.top
      high, tokens, requests = max(high, top[1]), tokens + top[2], requests + top[3]
    end
  end
  return high, {tokens, requests}
end

-- draw gets the lines, and which of them is a node's.
local function draw(of)
  lines = {}
  local own
  for _, name in ipairs(account.names) do
    local m = members[name]
    if live(m) then
      local l = {name = name, curve = fresh[name] or m.near, from = 0, to = 0, tokens = 0, requests = 0, tokensSlope = 0, requestsSlope = 0}
      lines[#lines + 1] = l
      if m == of then own = l end
    end
  end
  return own
end

-- fits reports whether what is used is there.
local function fits(uses, capacity)
  return uses[1] <= capacity[1] and uses[2] <= capacity[2]
end

-- fullAt is where a line through a level comes to all there is, of the axis that is exhausted first.
local function fullAt(level, uses, slopes, capacity)
  local full = math.huge
  for k = 1, AXES do
    if slopes[k] > 0 then
      full = min(full, level + (capacity[k] - uses[k]) / slopes[k])
    elseif uses[k] > capacity[k] then
      return -math.huge
    end
  end
  return full
end

local LOOKS = 240

-- flood finds the level at which all that is used comes to what there is.
local function flood(high, capacity)
  local low, level = 0, account.level
  for look = 0, LOOKS - 1 do
    if not (low < level and level < high) or look % 4 == 3 then level = (low + high) / 2 end
    if level <= low or level >= high then break end
    local from, to, uses, slopes = usesAt(level)
    local full = fullAt(level, uses, slopes, capacity)
    if from <= full and full < to then return full end
    if fits(uses, capacity) then low = level else high = level end
    level = full
  end
  return low
end

-- water is the level at which all that is used comes to what there is, of the axis that is
-- exhausted first; negative if all can have what they ask for. It is also what a node uses there, and
-- what all do.
local function water(of, limits, there)
  local capacity = {}
  for k = 1, AXES do capacity[k] = limits[k] > 0 and there[k] or math.huge end
  local high, all = crest()
  if fits(all, capacity) then return -1, {of.top[2], of.top[3]}, all end
  local own = draw(of)
  local level = flood(high, capacity)
  local _, _, uses = usesAt(level)
  local up = level - own.from
  return level, {own.tokens + own.tokensSlope * up, own.requests + own.requestsSlope * up}, uses
end
