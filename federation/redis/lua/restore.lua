-- Restoring an account from the digests that nodes have of the one before (restore.go, digest.go).

-- DIGEST is the version of digests. One of another is as good as none.
local DIGEST = 1

-- digest is the account in short.
local function digest()
  local function both(name) return {sums[1][name], sums[2][name]} end
  return cmsgpack.pack({
    version = DIGEST, epoch = account.epoch, turn = account.turn, now = account.now, limits = both('highest'),
    held = both('held'), refundable = both('refundable'), may = both('may'), booked = booked, gone = gone,
  })
end

-- MAX_DIGEST bounds the length of a digest, and MAX_DIGESTED each number in it.
local MAX_DIGEST, MAX_DIGESTED = 65536, 2 ^ 52

local function possible(x) return type(x) == 'number' and x >= 0 and x <= MAX_DIGESTED and x == floor(x) end

local function bothPossible(x) return type(x) == 'table' and #x == AXES and possible(x[1]) and possible(x[2]) end

-- possibleBook reports whether a book can be one of an account at now.
local function possibleBook(book, now)
  if type(book) ~= 'table' or type(book.used) ~= 'table' or type(book.from) ~= 'number' or book.from ~= floor(book.from) then return false end
  local n = 0
  for k = 1, AXES do
    if type(book.used[k]) ~= 'table' then return false end
    n = max(n, #book.used[k])
    for _, x in ipairs(book.used[k]) do
      if not possible(x) then return false end
    end
  end
  return n == #book.used[1] and n == #book.used[2] and (n == 0 or book.from >= slotOf(now) - SLOTS and book.from + n - 1 <= slotOf(now) + AHEAD)
end

-- readDigest is a digest of this version that a memory can have made, or nil.
local function readDigest(text)
  if #text > MAX_DIGEST then return nil end
  local ok, d = pcall(cmsgpack.unpack, text)
  if not ok or type(d) ~= 'table' or d.version ~= DIGEST then return nil end
  for _, name in ipairs({'epoch', 'turn', 'now'}) do
    if not possible(d[name]) then return nil end
  end
  for _, name in ipairs({'limits', 'held', 'refundable', 'may'}) do
    if not bothPossible(d[name]) then return nil end
  end
  if possibleBook(d.booked, d.now) and possibleBook(d.gone, d.now) then return d end
end

local told = {} -- copies that this beat has brought, by name

-- copiesOf are the copies of members, by name.
local function copiesOf(names)
  local copies = read('k:', names)
  for _, name in ipairs(names) do copies[name] = told[name] or copies[name] end
  return copies
end

-- journalOf is what a copy tells of all that an earlier process used, or nil.
local function journalOf(c)
  if c.Journal and c.Journal ~= cjson.null then return c.Journal end
end

-- sound is a copy in which what no node would tell is bounded.
local function sound(c)
  local function cut(list)
    local out = {}
    for i = 1, min(#list, SLOTS + AHEAD + 1) do out[i] = list[i] end
    return out
  end
  local journal = journalOf(c)
  return {
    Journal = journal and {Joined = journal.Joined, Booked = cut(journal.Booked)},
    Age = min(max(c.Age, 0), 2 * WINDOW), Shift = min(max(c.Shift, -MAX_DIGESTED), MAX_DIGESTED), Booked = cut(c.Booked),
    Held = clamp(c.Held, MAX_BOOKED), Refundable = clamp(c.Refundable, MAX_BOOKED),
    May = clamp(c.May, MAX_BOOKED), Refunded = clamp(c.Refunded, MAX_BOOKED), Former = c.Former,
  }
end

-- copied takes in what a member tells of the memory before.
local function copied(m, b)
  local c = b.Copy
  if not c or c == cjson.null or account.now >= account.learning and not account.before then return end
  local d = readDigest(ARGV[3])
  if not d or d.epoch == account.epoch then return end
  c = sound(c)
  account.copies[b.Node] = d.epoch
  told[b.Node] = c
  write('k:' .. b.Node, c)
  local late = account.now >= account.learning
  local last = account.before and account.before.digest
  if not last or d.epoch > last.epoch or d.epoch == last.epoch and d.turn > last.turn then
    local passed = max(0, m.sent - account.born)
    passed = passed - ceil(2 * passed / 1000)
    account.before = account.before or {counted = {}, counted_in = 0}
    account.before.digest, account.before.age, account.before.shift = d, max(0, c.Age - passed), c.Shift
  end
  account.before.late = late
end

-- forgetCopies drops what is known of the memory before.
local function forgetCopies()
  if not account.before then return end
  account.before = nil
  for name in pairs(account.copies) do
    dropped[#dropped + 1] = 'k:' .. name
  end
  for i = #changed - 1, 1, -2 do -- nor is what has just come written down
    if string.sub(changed[i], 1, 2) == 'k:' then
      table.remove(changed, i + 1)
      table.remove(changed, i)
    end
  end
  account.copies = {}
end

-- untold is what the digest contains of those who have not told: by slot, and else by axis. It is also what may have been
-- refunded, and how many nodes were there and are still.
local function untold()
  local d = account.before.digest
  local rest, held, refundable, may, refunded = {}, {0, 0}, {0, 0}, {0, 0}, {0, 0}
  for _, book in ipairs({d.booked, d.gone}) do
    for i = 1, #book.used[1] do
      local x = rest[book.from + i - 1] or {0, 0}
      rest[book.from + i - 1] = {x[1] + book.used[1][i], x[2] + book.used[2][i]}
    end
  end
  local names = {}
  for name, epoch in pairs(account.copies) do
    if epoch == d.epoch then names[#names + 1] = name end
  end
  local copies, there = copiesOf(names), 0
  for _, name in ipairs(names) do
    local c = copies[name]
    for _, x in ipairs(c.Booked) do
      local had, own = rest[x.Slot] or {0, 0}, clamp(x.Used, MAX_BOOKED)
      rest[x.Slot] = clamp({had[1] - own[1], had[2] - own[2]}, MAX_BOOKED)
    end
    if not c.Former then there = there + 1 end
    local back = c.Refunded
    for k = 1, AXES do
      held[k], refundable[k], may[k] = held[k] + c.Held[k], refundable[k] + c.Refundable[k], may[k] + c.May[k]
      refunded[k] = refunded[k] + back[k]
    end
  end
  local function left(sum, own) return clamp({sum[1] - own[1], sum[2] - own[2]}, MAX_BOOKED) end
  local open = left(d.refundable, refundable)
  return rest, left(d.held, held), left(d.may, may), {refunded[1] + open[1], refunded[2] + open[2]}, there
end

-- limitOf is the highest limit of an axis that nodes or the digest knew as of when the account was restored.
local function limitOf(k)
  if account.capEnds then return account.capped[k] end
  return max(sums[k].highest, min(account.before.digest.limits[k], MAX_LIMIT))
end

-- cutTo cuts usage to the limit of an axis, if there is one.
local function cutTo(k, used)
  local limit = limitOf(k)
  return limit > 0 and min(used, limit) or used
end

-- since is the most that may have been used of an axis of grants since the digest was made.
local function since(k, refunded)
  local d = account.before.digest
  local last, limit = floor((d.now + account.before.age + elapsed(TTL)) / SLOT), limitOf(k)
  local counts = 0
  if d.limits[k] > 0 then
    local from, to = last - SLOTS + 1, slotOf(d.now)
    counts = d.held[k] + bookSum(d.booked, from, to, k) + bookSum(d.gone, from, to, k)
  end
  return min(limit, max(0, limit - counts) + refunded[k])
end

-- count adds what was used by nobody knows whom, by a slot at the latest. As of now that may be later.
local function count(slot, tokens, requests, now)
  if tokens == 0 and requests == 0 or slot < slotOf(account.now) - SLOTS then return end
  bookAdd(slot <= now and booked or gone, slot, tokens, requests)
end

-- countUntold puts what those used who have not told, by slot, in the place of what was counted for them before.
local function countUntold(used)
  local b = account.before
  for _, x in ipairs(b.counted or {}) do count(x[1], -x[2], -x[3], b.counted_in) end -- those of format 4 have none
  b.counted, b.counted_in, b.late = {}, slotOf(account.now), nil
  for slot, x in pairs(used) do
    slot = min(slot, b.counted_in + AHEAD)
    count(slot, x[1], x[2], b.counted_in)
    b.counted[#b.counted + 1] = {slot, x[1], x[2]}
  end
end

-- journals are those of members, by name (restore_journal.go). From is the time since when all is told, unless the journal is old.
local function journals()
  local names, found = {}, {}
  for name in pairs(account.copies) do names[#names + 1] = name end
  for name, c in pairs(copiesOf(names)) do
    local journal = journalOf(c)
    found[name] = journal
    if journal and c.Age <= WINDOW / 2 then journal.from = journal.Joined end
  end
  return found
end

-- bookJournals books what earlier processes of members used.
local function bookJournals(all)
  for _, journal in pairs(all) do
    for _, x in ipairs(journal.Booked) do
      local used = clamp(x.Used, MAX_BOOKED)
      local function cut(k)
        local limit = sums[k].highest
        return limit > 0 and min(used[k], limit) or used[k]
      end
      local now = slotOf(account.now)
      count(min(x.Slot, now + AHEAD), cut(1), cut(2), now)
    end
  end
end

-- restored ends learning if there is a digest of the memory before. It may be repeated when others have told.
local function restored(expect)
  if not account.before then return false end
  local last = account.born + TTL
  if expect <= 0 and account.now < last then return false end
  local rest, held, may, refunded, there = untold()
  local all = expect > 0 and there >= expect
  if not all and account.now < last then return false end
  if not account.capEnds then
    account.capped, account.capEnds = {limitOf(1), limitOf(2)}, last + WINDOW + SLOT
    account.learning = account.now
  end
  if not all then may = {since(1, refunded), since(2, refunded)} end
  local used, shift = {}, ceil(account.before.shift / SLOT)
  local function add(slot, tokens, requests)
    local x = used[slot] or {0, 0}
    used[slot] = {x[1] + cutTo(1, tokens), x[2] + cutTo(2, requests)}
  end
  for slot, x in pairs(rest) do add(slot + shift, x[1], x[2]) end
  add(slotOf(last), held[1] + may[1], held[2] + may[2])
  countUntold(used)
  return true
end

-- toldLate counts anew what those used who have not told, if one of them has told after the account was restored.
local function toldLate(expect)
  if not account.before then return end
  if account.now >= (account.capEnds or 0) then return forgetCopies() end
  if account.before.late then restored(expect) end
end
