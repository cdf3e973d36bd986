-- One process's beats of owners that hold for the same calls, and these calls (parts.Ask).
--
-- KEYS are the owners'. args are of each a beat, and then of each call how many takes, and of each beat, claim, amount,
-- 1 if the rest will do. It returns of each beat the answer, and of each call 1 and how much of each take it was let in
-- with, or 0, lacks, wait; nothing if a beat came late, or twice.
local HEARD, GIVE_BACK, SECONDS = 700, 1000, 66
local accounts, argument, late = {}, 1, false

-- free is what nobody has of a limit.
local function free(h, of)
  if over(h) or lost.learning then return 0 end
  local left = limit_(h, of)
  for i = 2, #of, 2 do left = max(left - belief(of[i]), 0) end
  return left
end

-- in_flight tells whether calls in flight may give back something.
local function in_flight(of)
  for i = 2, #of, 2 do
    if of[i][HELD] > 0 and is_live(of[i]) then return true end
  end
  return false
end

-- wait is in how many milliseconds so much more will have left a limit; 0 is not known.
local function wait(h, of, lack)
  if lost.learning then return max(lost.born + TTL + 1 - now, 0) end
  if over(h) or h[KIND] == 'slots' then return 0 end
  if h[KIND] == 'period' then return max(h[ENDS] - now, 0) end
  local step = step_(h)
  local leaves, soon, first = {}, 0, floor(now / step)
  local function add(second, amount)
    local i = min(max(second - first, 0), SECONDS - 1)
    leaves[i] = (leaves[i] or 0) + amount
  end
  for k = 2, #of, 2 do
    local x = of[k]
    local rest, marks = belief(x), x[MARKS] or {}
    for i = 1, #marks, 2 do
      add(marks[i] + 1 + floor(window_(h) / step), marks[i + 1])
      rest = rest - marks[i + 1]
    end
    if rest > 0 and is_live(x) and x[HIGH] > x[USED] then
      soon = soon + rest
    elseif rest > 0 then
      add(floor(until_(x) / step) + 1, rest)
    end
  end
  lack = lack - soon
  if lack <= 0 then return GIVE_BACK end
  for i = 0, SECONDS - 1 do
    lack = lack - (leaves[i] or 0)
    if lack <= 0 then return max((first + i) * step - now, 0) + HEARD end
  end
  return window_(h)
end

local function put(a) now, began, members, lost = a.now, a.began, a.members, a.lost end

-- let lets a call in that takes these of claims, or says what it lacks, to the reply.
local function let(takes, reply)
  local is_in, lacks, longest = 1, 0, -1
  for i, t in ipairs(takes) do
    local a = t.account
    put(a)
    local h = a.member[HOLDS][t.claim]
    local of = a.of[h[NAME]]
    local left = free(h, of)
    if t.amount > left and t.rest and left > 0 and not in_flight(of) then t.amount = left end
    if t.amount > left then
      is_in = 0
      local w = wait(h, of, t.amount - left)
      if w > longest then lacks, longest = i - 1, w end
    end
  end
  reply[#reply + 1] = is_in
  if is_in == 0 then
    reply[#reply + 1] = lacks
    reply[#reply + 1] = max(longest, 0)
    return
  end
  for _, t in ipairs(takes) do
    local h = t.account.member[HOLDS][t.claim]
    h[HIGH] = belief(h) + t.amount
    h[WANT] = max(h[WANT], h[USED] + t.amount)
    h[USED], h[HELD] = min(h[USED] + t.amount, MAX_SUM), min(h[HELD] + t.amount, MAX_SUM)
    h.given = h[USED]
    reply[#reply + 1] = t.amount
  end
end

for i, key in ipairs(KEYS) do
  local foreign = load(key, argument)
  if foreign then return foreign end
  local a = {at = argument, seq = args[argument + 1], member = member(args[argument]), now = now, began = began, members = members, lost = lost}
  accounts[i], argument = a, argument + HEAD + CLAIM * args[argument + 4]
  late = late or a.seq <= a.member[SEQ]
end
if late then
  for i, a in ipairs(accounts) do
    put(a)
    save(KEYS[i])
  end
  return {}
end
for _, a in ipairs(accounts) do
  put(a)
  recall(a.at)
  a.began = began
  a.of = tell(a.member, a.seq, a.at)
end
local verdicts, reply = {}, {}
while argument <= #args do
  local takes = {}
  for i = argument + 1, argument + 4 * args[argument], 4 do
    takes[#takes + 1] = {
      account = accounts[args[i] + 1], claim = args[i + 1] + 1, amount = args[i + 2], rest = args[i + 3] == 1,
    }
  end
  argument = argument + 1 + 4 * #takes
  let(takes, verdicts)
end
for i, a in ipairs(accounts) do
  put(a)
  answer(a.member, a.seq, a.at, a.of, reply)
  save(KEYS[i])
end
for _, v in ipairs(verdicts) do reply[#reply + 1] = v end
return reply
