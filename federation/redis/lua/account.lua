-- The account (account.go).

-- Replies are {status, epoch, now, until, level, grants …, used …, digest, format, lost, path, rate, path, rate …}.
local GRANTED, LEARNING, RESEND, STALE, FENCED = 'granted', 'learning', 'resend', 'stale', 'fenced'

local function say(status) return {status, account.epoch, account.now, 0, '0', 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0} end

-- lost begins a new memory, because the old one has holes.
local function lost(incarnation)
  local epoch = max(account.epoch + 1, account.now)
  newAccount(account.now, incarnation)
  account.epoch, account.lost, emptied, dropped = epoch, true, true, {}
end

-- forgot reports whether a node had an answer of this memory to a later beat than the last that it
-- knows.
local function forgot(b)
  local m = members[b.Node]
  return m and m.instance == b.Instance and b.Epoch == account.epoch and not b.Full and m.seq < b.Acked
end

-- demand adds a node's demands to those of all, or takes them off.
local function demand(demands, sign)
  for path, rate in pairs(demands) do
    local sum = (totals[path] or 0) + sign * rate
    totals[path] = sum ~= 0 and sum or nil
  end
end

-- age drops what has left the Window, and who has nothing left in it. Who is not heard of any more
-- asks for nothing.
local function age()
  local first = slotOf(account.now) - SLOTS
  bookSince(booked, first)
  bookSince(gone, first)
  local names = {}
  for _, name in ipairs(account.names) do
    local m = members[name]
    local silenced = m.counted and not live(m)
    if silenced then
      demand(read('d:', {name})[name], -1)
      m.counted = false
    end
    if account.now - m.seen > WINDOW + TTL + SLOT and m.latest < first then
      members[name] = nil
      forget(name)
    else
      names[#names + 1] = name
      if silenced then writeMember(name) end
    end
  end
  account.names = names
end

-- together is how many are known to have run at a time: as many as had joined by when one did, but for
-- those that had told last before it.
local function together()
  local began, ended = {}, {}
  for _, name in ipairs(account.names) do
    local m = members[name]
    if m.joined <= m.sent then began[#began + 1], ended[#ended + 1] = m.joined, m.sent end
  end
  table.sort(began)
  table.sort(ended)
  local most, over = 0, 0
  for n, t in ipairs(began) do
    while ended[over + 1] < t do over = over + 1 end
    most = max(most, n - over)
  end
  return most
end

-- knows reports whether all that was used is known by what nodes have told of themselves.
local function knows(expect, journals)
  if account.fresh and not account.lost then return true end
  if expect <= 0 then return false end
  local told = 0
  for _, name in ipairs(account.names) do
    local from, journal = members[name].joined, journals[name]
    if journal and journal.from then from = min(from, journal.from) end
    if from < account.born - WINDOW - SLOT then told = told + 1 end
  end
  return told >= expect or not account.lost and together() >= expect
end

-- learns reports whether it is too early to grant anything.
local function learns(expect)
  if account.now < account.learning then
    local all = journals()
    if knows(expect, all) then
      bookJournals(all)
      account.learning = account.now
    end
  end
  if account.now >= account.learning then
    toldLate(expect)
    return false
  end
  return not restored(expect)
end

-- retire takes down all that a node that is no more may have used: what it was granted, or held
-- before, as late as it can have used it, and what belonged to no slot yet, now.
local function retire(m)
  local now, expired = slotOf(account.now), expiry(m)
  if slotOf(expired) >= now - SLOTS then bookAdd(gone, slotOf(expired), bound(m, 1, TTL), bound(m, 2, TTL)) end
  bookAdd(gone, slotOf(max(expired, account.now)), m.held[1], m.held[2])
  for _, x in ipairs(m.later) do
    if x[1] > now then -- it was used before now
      bookAdd(booked, x[1], -x[2], -x[3])
      bookAdd(gone, x[1], x[2], x[3])
    end
  end
end

-- LEAVING is how many slots of the oldest are no news.
local LEAVING = 2

-- rebook takes in what a node has used, by slot, and returns by how much it is more.
local function rebook(m, book, b)
  local now = slotOf(account.now)
  local first, last = now - SLOTS, now + AHEAD
  local more = {0, 0}
  local function change(slot, tokens, requests)
    if slot < first or slot > last then return end
    tokens, requests = tokens - bookAt(book, slot, 1), requests - bookAt(book, slot, 2)
    if tokens == 0 and requests == 0 then return end
    bookAdd(book, slot, tokens, requests)
    bookAdd(booked, slot, tokens, requests)
    if slot > first + LEAVING then more[1], more[2] = more[1] + tokens, more[2] + requests end
  end
  if b.Full then
    local told = {}
    for _, x in ipairs(b.Booked) do told[x.Slot] = true end
    for slot = book.from, bookLast(book) do
      if not told[slot] then change(slot, 0, 0) end
    end
  end
  for _, x in ipairs(b.Booked) do
    local used = clamp(x.Used, MAX_BOOKED)
    change(x.Slot, used[1], used[2])
  end
  m.latest, m.later = bookLast(book), {}
  for slot = now + 1, min(b.Past, m.latest) do -- as late as that, and used before now
    m.later[#m.later + 1] = {slot, bookAt(book, slot, 1), bookAt(book, slot, 2)}
  end
  return more
end

-- redraw takes in a node's curve. Of it only what is needed in most beats lies with the member itself.
local function redraw(m, b)
  fresh[b.Node], m.top = curveOf(b.Curve)
  writeRaw('c:' .. b.Node, fresh[b.Node])
end

-- book takes in what a node tells. known says that it is the process that there was.
local function book(m, b, known)
  local own = known and read('b:', {b.Node})[b.Node] or newBook()
  bookSince(own, slotOf(account.now) - SLOTS)
  local more = rebook(m, own, b)
  local held = clamp(b.Held, MAX_BOOKED)
  for k = 1, AXES do more[k] = more[k] + held[k] - m.held[k] end
  if b.Full then more = {0, 0} end -- all of it is of before, and nobody was granted anything meanwhile

  m.format, m.address = b.Format, b.Address
  m.region, m.seq, m.seen, m.sent = b.Region, b.Seq, account.now, min(b.Sent, account.now)
  m.joined = b.Join and account.now or b.Joined
  m.limits, m.burst, m.reserve = clamp(b.Limits, MAX_LIMIT), clamp(b.Burst, MAX_LIMIT), clamp(b.Reserve, MAX_LIMIT)
  account.turn = account.turn + 1
  m.refundable = clamp(b.Refundable, MAX_BOOKED)
  m.held, m.parts, m.grant = held, clamp(b.Parts, WINDOW), {{0, 0, 0}, {0, 0, 0}}
  for k, e in ipairs(b.Holding) do m.holding[k] = sane(e.Level, e.Rate, e.Left) end
  m.waiting, m.ready = clamp(b.Waiting, MAX_BOOKED), clamp(b.Ready, MAX_LIMIT)
  redraw(m, b)
  local demands = {}
  for _, d in ipairs(b.Demands) do
    if d.Rate > 0 then demands[d.Path] = d.Rate end
  end
  demand(demands, 1)
  m.counted = true
  write('b:' .. b.Node, own)
  write('d:' .. b.Node, demands)
  survey()
  copied(m, b)
  fill(more)
end

-- receive books what a node tells. It returns no member where the answer is whole.
local function receive(now, incarnation, b)
  if account.now - now > TTL + WINDOW + SLOT then -- to learn anew takes less than to wait for it
    account.now = now
    lost(incarnation)
  end
  account.now = max(account.now, now)
  if incarnation ~= account.incarnation or forgot(b) then lost(incarnation) end
  account.lost = account.lost or b.Epoch ~= 0 and b.Epoch ~= account.epoch and not (account.fresh and b.Join)
  age()
  local m = members[b.Node]
  local known = m ~= nil and m.instance == b.Instance
  if m and not known and not b.Join then return nil, say(FENCED) end
  if known and m.seq == b.Seq then return nil, read('r:', {b.Node})[b.Node] end -- the beat is there twice
  if known and m.seq > b.Seq then return nil, say(STALE) end
  if not b.Join and (b.Epoch ~= account.epoch or not known and not b.Full) then return nil, say(RESEND) end
  if m and m.counted then demand(read('d:', {b.Node})[b.Node], -1) end
  if m and not known then retire(m) end
  if not m then enlist(b.Node) end
  if not known then
    m = {instance = b.Instance, held = {0, 0}, holding = {}, may = {0, 0}} -- what the process before it told stays told
    members[b.Node] = m
  end
  book(m, b, known)
  local r = say(GRANTED)
  if learns(b.Expect) then
    r[1], r[4] = LEARNING, account.before and min(account.learning, account.born + TTL) or account.learning
    r[16] = account.lost and 1 or 0
  end
  return m, r
end

-- below reports whether a path lies below one of others.
local function below(path, others)
  for _, o in ipairs(others) do
    if string.sub(path, 1, #o + 1) == o .. '/' then return true end
  end
  return false
end

-- tell appends the demands of all nodes at what a beat names.
local function tell(r, b)
  local named = {}
  for _, d in ipairs(b.Demands) do
    if not named[d.Path] then
      named[d.Path] = true
      r[#r + 1], r[#r + 2] = d.Path, totals[d.Path] or 0
    end
  end
  if #b.Under == 0 then return end
  for path, rate in pairs(totals) do
    if not named[path] and below(path, b.Under) then
      r[#r + 1], r[#r + 2] = path, rate
    end
  end
end

-- used is what counts against the limit of an axis now (Account.used).
local function used(k)
  local now, held = slotOf(account.now), 0
  for _, m in pairs(members) do held = held + m.held[k] end
  return bookSum(booked, now - SLOTS, now, k) + bookSum(gone, now - SLOTS, now + floor(TTL / SLOT) + 1, k) + held
end

-- format is the newest that all members understand (Account.format).
local function format()
  local all = huge
  for _, m in pairs(members) do all = min(all, max(1, m.format)) end
  return all
end

-- beat books what a node tells, and answers (Account.Beat).
local function beat(now, incarnation, b)
  local m, r = receive(now, incarnation, b)
  if not m then return r end
  if r[1] == GRANTED then
    m.grant = grant(m)
    r[5] = string.format('%.17g', account.level)
    for k = 1, AXES do
      for i = 1, 3 do r[2 + 3 * k + i] = m.grant[k][i] end
    end
  end
  for k = 1, AXES do r[11 + k] = used(k) end
  r[15] = format()
  tell(r, b)
  m.near = near(fresh[b.Node], account.level)
  for k = 1, AXES do
    local may = bound(m, k, TTL)
    sums[k].may, m.may[k] = sums[k].may - m.may[k] + may, may
  end
  writeMember(b.Node)
  write('r:' .. b.Node, r)
  if r[1] == GRANTED then r[14] = digest() end
  return r
end
