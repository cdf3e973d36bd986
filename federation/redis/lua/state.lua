-- How an account lies in Redis: one hash a pool, so that it is there or is gone as a whole.
--
--   account     the account itself, and the names of its members in order
--   booked      what all have used, by slot        gone     what those may have that are no more
--   totals      the demands of all live members, by path
--   n:NAME      a member                           b:NAME   what it has used, by slot
--   c:NAME      its curve                          d:NAME   its demands, by path
--   r:NAME      what it was answered last          k:NAME   its copy of the memory before, while this one learns
--
-- All that is written is written at the end, so that a beat that fails leaves no trace.

local KEY = KEYS[1]
local VERSION = 3

-- KEEP is for how long an account is kept that nobody asks for.
local KEEP = 7 * 24 * 3600 * 1000

-- Envelopes are {level, rate, left}.
local LEVEL, RATE, LEFT = 1, 2, 3

local account             -- see newAccount
local members = {}        -- by name
local booked, gone        -- books
local totals              -- by path

-- MANY is how many fields one command gets: Lua's stack has an end.
local MANY = 4000

-- readRaw is the values of prefix and name, by name. What is not there is left out.
local function readRaw(prefix, names)
  local values = {}
  for first = 1, #names, MANY do
    local fields = {}
    for i = first, min(#names, first + MANY - 1) do fields[#fields + 1] = prefix .. names[i] end
    for i, blob in ipairs(redis.call('HMGET', KEY, unpack(fields))) do
      values[names[first + i - 1]] = blob or nil
    end
  end
  return values
end

local function read(prefix, names)
  local values = readRaw(prefix, names)
  for name, blob in pairs(values) do values[name] = cmsgpack.unpack(blob) end
  return values
end

-- A member is written down as its numbers and then its strings, in a fixed order: each beat reads them
-- all, and this takes a third of the time of a cmsgpack. What later releases add comes behind that: earlier ones
-- do not read it, and leave it out when they write the member.
local MEMBER = '<' .. string.rep('d', 39) .. string.rep('I4c0', 4)
local LATER, LATER_SIZE = '<ddd', 24
local ADDED = '<dI4c0'

local function packMember(m)
  local h, i, g, j, top, later = m.holding[1], m.holding[2], m.grant[1], m.grant[2], m.top, {}
  for n, x in ipairs(m.later) do later[n] = struct.pack(LATER, x[1], x[2], x[3]) end
  later = table.concat(later)
  return struct.pack(MEMBER,
    m.seq, m.seen, m.sent, m.joined, m.latest, m.counted and 1 or 0,
    m.limits[1], m.limits[2], m.burst[1], m.burst[2], m.reserve[1], m.reserve[2], m.held[1], m.held[2], m.parts[1], m.parts[2],
    h[1], h[2], h[3], i[1], i[2], i[3], g[1], g[2], g[3], j[1], j[2], j[3],
    m.waiting[1], m.waiting[2], m.ready[1], m.ready[2], top[1], top[2], top[3],
    m.refundable[1], m.refundable[2], m.may[1], m.may[2],
    #m.instance, m.instance, #m.region, m.region, #m.near, m.near, #later, later) .. struct.pack(ADDED, m.format, #m.address, m.address)
end

local function unpackLater(packed)
  local later = {}
  for at = 1, #packed, LATER_SIZE do
    local slot, tokens, requests = struct.unpack(LATER, packed, at)
    later[#later + 1] = {slot, tokens, requests}
  end
  return later
end

local function unpackMember(blob)
  local seq, seen, sent, joined, latest, counted,
    limit1, limit2, burst1, burst2, reserve1, reserve2, held1, held2, parts1, parts2,
    h1, h2, h3, i1, i2, i3, g1, g2, g3, j1, j2, j3,
    waiting1, waiting2, ready1, ready2, top1, top2, top3,
    refundable1, refundable2, may1, may2,
    instance, region, near, later, added = struct.unpack(MEMBER, blob)
  local format, address = 0, ''
  if added <= #blob then format, address = struct.unpack(ADDED, blob, added) end
  return {
    format = format, address = address,
    seq = seq, seen = seen, sent = sent, joined = joined, latest = latest, counted = counted == 1,
    limits = {limit1, limit2}, burst = {burst1, burst2}, reserve = {reserve1, reserve2}, held = {held1, held2}, parts = {parts1, parts2},
    holding = {{h1, h2, h3}, {i1, i2, i3}}, grant = {{g1, g2, g3}, {j1, j2, j3}},
    waiting = {waiting1, waiting2}, ready = {ready1, ready2}, top = {top1, top2, top3},
    refundable = {refundable1, refundable2}, may = {may1, may2},
    instance = instance, region = region, near = near, later = unpackLater(later),
  }
end

-- load reads what every beat needs, and reports whether there is anything, and what is wrong with it.
local function load()
  local blob = redis.call('HMGET', KEY, 'account', 'booked', 'gone', 'totals')
  if not blob[1] then
    if redis.call('EXISTS', KEY) == 1 then return false, 'it is no account' end
    return false
  end
  account = cmsgpack.unpack(blob[1])
  if account.version ~= VERSION then return false, 'it is of version ' .. tostring(account.version) end
  if account.rules ~= RULES then return false, 'its rules are ' .. tostring(account.rules) .. ', not ' .. RULES end
  booked, gone, totals = cmsgpack.unpack(blob[2]), cmsgpack.unpack(blob[3]), cmsgpack.unpack(blob[4])
  for name, blob in pairs(readRaw('n:', account.names)) do members[name] = unpackMember(blob) end
  return true
end

-- newAccount begins an account.
local function newAccount(now, incarnation)
  account = {
    version = VERSION, rules = RULES,
    incarnation = incarnation, epoch = max(1, now), lost = false, born = now, learning = now + TTL + WINDOW + SLOT,
    now = now, level = 0, fill = {{level = 0, rate = 0, at = 0}, {level = 0, rate = 0, at = 0}},
    names = {}, turn = 0, copies = {},
  }
  members, booked, gone, totals = {}, newBook(), newBook(), {}
end

-- What is to be written: values by field, and fields to be dropped. emptied says that nothing
-- stays of what is there.
local changed, dropped, emptied = {}, {}, false

local function writeRaw(field, blob)
  changed[#changed + 1] = field
  changed[#changed + 1] = blob
end

local function write(field, value) writeRaw(field, cmsgpack.pack(value)) end

local function writeMember(name) writeRaw('n:' .. name, packMember(members[name])) end

-- forget drops all that there is of a member, but for what is written of it.
local function forget(name)
  account.copies[name] = nil
  for _, prefix in ipairs({'n:', 'b:', 'c:', 'd:', 'r:', 'k:'}) do dropped[#dropped + 1] = prefix .. name end
end

-- before is the order of names: of their bytes, and not that of the server's language.
local function before(x, y)
  for i = 1, min(#x, #y) do
    local p, q = string.byte(x, i), string.byte(y, i)
    if p ~= q then return p < q end
  end
  return #x < #y
end

-- enlist puts a name in its place.
local function enlist(name)
  local names, i = account.names, 1
  while names[i] and before(names[i], name) do i = i + 1 end
  table.insert(names, i, name)
end

local function save()
  if emptied then redis.call('DEL', KEY) end
  write('account', account)
  write('booked', booked)
  write('gone', gone)
  write('totals', totals)
  for first = 1, #dropped, MANY do
    redis.call('HDEL', KEY, unpack(dropped, first, min(#dropped, first + MANY - 1)))
  end
  for first = 1, #changed, MANY do
    redis.call('HSET', KEY, unpack(changed, first, min(#changed, first + MANY - 1)))
  end
  redis.call('PEXPIRE', KEY, KEEP)
end
