-- The account of an owner's limits (package federation/parts), under the same names and in the
-- same order.
--
-- All lies in one value: {VERSION, now, began, members, lost, declared}, with members of {instance, seq, seen, holds, joined, heard}, of which
-- earlier releases leave out the last two. lost is what there is to know of losses: see restore_parts.lua. declared is there until the first beat
-- of an account that was declared new, and is dropped by earlier releases.
local VERSION = 2
local TTL, WINDOW = 2500, 60000
local MAX_SUM = 4e15
local INSTANCE, SEQ, SEEN, HOLDS, JOINED, RAN = 1, 2, 3, 4, 5, 6
-- Of a hold. USED and WANT are as of the claim.
local NAME, KIND, ENDS, TOLD, USED, HELD, HIGH, WANT, NEED, SINCE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local LIMIT, SPARE, WEIGHT, CALM, CALM_USE, TAIL = 11, 12, 13, 14, 15, 16
-- MARKS are {second, amount, second, amount, …}, of a hold that is timed.
local MARKS = 17
-- MOST bounds what others may have, because it may be what the member believes; 0 is no bound.
local MOST = 18
-- NOTE is for the other members. LASTS is for how long the part lasts beyond a TTL; it is not there in holds of earlier releases.
local NOTE, LASTS = 19, 20
-- All arguments come as one list, because a server and its client take longer for a hundred of them than for what is to be done.
local args = cmsgpack.unpack(ARGV[1])
-- Of a beat in it: the instance, seq, 1 if it has left, 1 if it is timed, how many claims, epoch, known, heard, and of each claim
-- name, kind, limit, ends, used, held, part, want, need, spare, weight, calm, calm use, tail, sum, gone, most, peers, had, expect, lasts, lasted, note.
local HEAD, CLAIM = 8, 23
-- DECLARED is for how long an account that was declared new waits for its first process (first.go).
local DECLARED = 24 * 3600 * 1000

local ceil, floor, min, max = math.ceil, math.floor, math.min, math.max
local now, began, members, lost, declared = 0, 0, {}, {}, nil

-- window_ is how long use of a rolling limit counts, and step_ how long a mark of it is.
local function window_(h) return h[TAIL] > 0 and h[TAIL] or WINDOW end

local function step_(h) return max(1, floor(window_(h) / 60)) end

local function expires(h) return h[TOLD] + TTL + (h[LASTS] or 0) end

local function until_(h)
  if h[KIND] == 'rolling' then return expires(h) + window_(h) end
  if h[KIND] == 'period' then return h[ENDS] + WINDOW end
  return expires(h) + h[TAIL]
end

local function is_live(h) return expires(h) >= now end

local function over(h) return until_(h) < now end

local function belief(h) return max(h[HIGH], h[USED]) end

-- by_name is the hold of each name.
local function by_name(holds)
  local of = {}
  for _, h in ipairs(holds) do of[h[NAME]] = h end
  return of
end

-- drop takes out of a list what is to be dropped.
local function drop(list, dropped)
  local all, kept = #list, 0
  for i = 1, all do
    local x = list[i]
    if not dropped(x) then
      kept = kept + 1
      list[kept] = x
    end
  end
  for i = all, kept + 1, -1 do list[i] = nil end
end

local function ended(m) return #m[HOLDS] == 0 and m[SEEN] + TTL < now end

-- untold is the hold of those who have not told of a limit of an account that was lost.
local function untold(u)
  local last, told, all, gone = 0, 0, 0, 0
  for _, t in ipairs(u.told) do last = max(last, t[1]) end
  for _, t in ipairs(u.told) do
    if t[1] + (t[4] or 0) >= last - TTL then told, all, gone = told + 1, max(all, t[2]), max(gone, t[3]) end
  end
  local n = max(u.most - u.had, 0)
  if told >= all then
    n = max(u.sum - u.had, 0)
    if u.kind ~= 'period' then n = min(n, gone) end
  end
  return {u.name, u.kind, u.ends, lost.born, n, 0, n, n, 0, 0, 0, 0, 0, 0, 0, u.tail}
end

local function idle(h) return belief(h) == 0 and h[WANT] == 0 or over(h) end

-- age drops what counts no more, and who has nothing left.
local function age()
  for _, m in ipairs(members) do drop(m[HOLDS], over) end
  drop(members, ended)
  drop(lost.untold, function(u) return over(untold(u)) end)
  if #lost.untold == 0 and not lost.learning then lost.tellers = {} end
end

-- member is a process that is known, now at the latest.
local function member(instance)
  for _, m in ipairs(members) do
    if m[INSTANCE] == instance then return m end
  end
  members[#members + 1] = {instance, 0, 0, {}, now, 0}
  return members[#members]
end

-- peers are, by the names that the beat at args[at] tells of, what members have of each: {member, hold, …}.
local function peers(at)
  local of = {}
  for i = at + HEAD, at + HEAD + CLAIM * (args[at + 4] - 1), CLAIM do of[args[i]] = {} end
  for _, m in ipairs(members) do
    for _, h in ipairs(m[HOLDS]) do
      local list = of[h[NAME]]
      if list then
        local n = #list
        list[n + 1], list[n + 2] = m, h
      end
    end
  end
  if lost.learning then return of end
  for _, u in ipairs(lost.untold) do
    local list = of[u.name]
    if list then
      local n = #list
      list[n + 1], list[n + 2] = lost, untold(u)
    end
  end
  return of
end

-- tell replaces what a member has told before by the beat that begins at args[at], and returns its peers.
local function tell(m, seq, at)
  local before, holds = m[HOLDS], {}
  local known = by_name(before)
  for i = at + HEAD, at + HEAD + CLAIM * (args[at + 4] - 1), CLAIM do
    local limit, ends, used, held, part, want, need, spare, weight, calm, calm_use, tail = unpack(args, i + 2, i + 13)
    local since, was = 0, known[args[i]]
    if need > part then since = was and was[SINCE] > 0 and was[SINCE] or now end
    want = max(want, need, used)
    if args[i + 1] == 'slots' and tail > 0 then tail = max(tail, TTL) end
    spare = min(spare, want - max(need, used))
    holds[#holds + 1] = {
      args[i], args[i + 1], ends, now, used, held, part, want, need, since,
      limit, spare, weight, calm, min(calm_use, want - spare), tail, was and was[MARKS] or false, args[i + 16], args[i + 22], args[i + 20],
    }
  end
  local told = by_name(holds)
  for _, h in ipairs(before) do
    if (h[LASTS] or 0) > 0 then h[USED], h[TOLD] = belief(h), now end
    if h[KIND] ~= 'slots' and not told[h[NAME]] then -- it has left it
      holds[#holds + 1] = {h[NAME], h[KIND], h[ENDS], h[TOLD], h[USED], 0, 0, h[USED], 0, 0, 0, 0, 0, 0, 0, h[TAIL], h[MARKS] or false, 0}
    end
  end
  m[SEQ], m[SEEN], m[HOLDS] = seq, now, holds
  if args[at + 6] == lost.epoch then m[RAN] = args[at + 7] end
  return peers(at)
end

-- share divides so much by weighted max-min, of stakes {want, weight}.
local function share(stakes, avail)
  local order, weights, parts, level = {}, 0, {}, -1
  for i, x in ipairs(stakes) do -- in the order of how much for each unit of weight they want
    parts[i] = 0
    if x[1] > 0 then
      local at = #order + 1
      while at > 1 and stakes[order[at - 1]][1] / stakes[order[at - 1]][2] > x[1] / x[2] do
        order[at], at = order[at - 1], at - 1
      end
      order[at] = i
      weights = weights + x[2]
    end
  end
  for _, i in ipairs(order) do
    local want, weight = stakes[i][1], stakes[i][2]
    parts[i] = min(want, ceil(avail * weight / weights - 0.5))
    avail, weights = avail - parts[i], weights - weight
    if level < 0 and parts[i] < want then level = parts[i] end
  end
  return parts, level
end

-- gone is what was used and never becomes free.
local function gone(h) return h[KIND] == 'period' and h[USED] or 0 end

-- want is what is wanted beside that, and firm what of it is for what there is.
local function want(h) return h[WANT] - gone(h) end

local function firm(h) return max(h[WANT] - h[SPARE] - gone(h), 0) end

local function sum(live, of)
  local n = 0
  for _, x in ipairs(live) do n = min(n + of(x), MAX_SUM) end
  return n
end

-- call is what has to be free at once for the call that waits longest.
local function call(h) return h[NEED] - h[USED] end

-- lacks reports whether a call waits that would never go with such a part.
local function lacks(h, part, level)
  if h[WEIGHT] > 0 then level = part end
  return h[SINCE] > 0 and call(h) > level
end

-- even divides what is left for what may come.
local function even(live, avail)
  local stakes = {}
  for i, x in ipairs(live) do stakes[i] = {x[SPARE], 1} end
  return (share(stakes, avail))
end

-- weigh divides what is wanted for what there is, by the weights of those who want it.
local function weigh(live, avail)
  local stakes, parts = {}, {}
  for i, x in ipairs(live) do
    local calm = max(x[CALM_USE] - gone(x), 0)
    stakes[2 * i - 1] = {calm, max(1, x[CALM])}
    stakes[2 * i] = {max(firm(x) - calm, 0), max(1, x[WEIGHT])}
  end
  local both, level = share(stakes, avail)
  for i in ipairs(live) do parts[i] = both[2 * i - 1] + both[2 * i] end
  return parts, level
end

-- target is what one of those who are heard of should have of avail.
local function target(h, live, avail)
  local at
  for i, x in ipairs(live) do
    if x == h then at = i end
  end
  avail = max(avail - sum(live, gone), 0)
  if avail >= sum(live, want) then return h[WANT] end
  local rest = avail - sum(live, firm)
  if rest >= #live then return gone(h) + firm(h) + even(live, rest)[at] end
  if rest >= 0 then return gone(h) + firm(h) end
  local parts, level = weigh(live, avail)
  local first
  for i, x in ipairs(live) do
    if lacks(x, parts[i], level) and (not first or x[SINCE] < live[first][SINCE]) then first = i end
  end
  if first then
    local least = min(call(live[first]), avail)
    local others = {}
    for i, x in ipairs(live) do
      if i ~= first then others[#others + 1] = x end
    end
    parts = weigh(others, avail - least)
    table.insert(parts, first, least)
  end
  return gone(h) + parts[at]
end

-- limit_ is the least that any knows of those who are heard of.
local function limit_(h, of)
  local least = h[LIMIT]
  for i = 2, #of, 2 do
    local x = of[i]
    if is_live(x) and x[LIMIT] > 0 then least = min(least, x[LIMIT]) end
  end
  return least
end

-- promised is the most that a member may have, by what others believe of others.
local function promised(m, h, of)
  if h[KIND] ~= 'period' then return MAX_SUM end
  local others, most = 0, MAX_SUM
  for i = 1, #of, 2 do
    if of[i] ~= m then others = min(others + belief(of[i + 1]), MAX_SUM) end
  end
  for i = 1, #of, 2 do
    local x = of[i + 1]
    if of[i] ~= m and (x[MOST] or 0) > 0 and x[WANT] > x[USED] and is_live(x) then
      most = min(most, max(x[MOST] + belief(x) - others, 0))
    end
  end
  return max(most, belief(h))
end

-- promise is what others than a member have of a limit, and those of them who are gone; what they may come to have, and how many are
-- heard of.
local function promise(m, h, of, limit)
  local want, all, gone, here = max(h[WANT] - h[USED], 0), 0, 0, 0
  for i = 1, #of, 2 do
    local x = of[i + 1]
    if of[i] ~= m then
      local had = belief(x)
      all, want = min(all + had, MAX_SUM), min(want + had, MAX_SUM)
      if not is_live(x) or of[i][INSTANCE] == '' then
        gone = min(gone + had, MAX_SUM)
      else
        here, want = here + 1, min(want + max(x[WANT] - had, 0) + max(x[WANT] - x[USED], 0), MAX_SUM)
      end
    end
  end
  want = want + floor((max(limit - belief(h) - all, 0) + 7) / 8)
  if h[KIND] ~= 'period' then want = limit end
  local most = max(1, all, min(limit, want))
  if h[MOST] == 0 or most < h[MOST] then h[MOST] = most end
  return all, gone, most, here
end

-- complete reports whether an account that is new has heard of all processes that there are (first.go).
local function complete(expect)
  if expect == 0 or began ~= lost.born then return false end
  for _, last in ipairs(members) do
    local ran, joined = 0, last[JOINED] or math.huge
    for _, m in ipairs(members) do
      if (m[JOINED] or math.huge) <= joined and joined <= (m[RAN] or 0) then ran = ran + 1 end
    end
    if ran >= expect then return true end
  end
  return false
end

-- grant adds the answer to a claim: its part, what others use, what of that they hold; what promise says; and how many notes they
-- have, and of each its age and text.
local function grant(m, h, of, expect, reply)
  local n = #reply
  for i = n + 1, n + 8 do reply[i] = 0 end
  if over(h) then return end
  local limit = limit_(h, of)
  local free, avail, others, held, live = limit, limit, 0, 0, {}
  for i = 1, #of, 2 do
    local o, x = of[i], of[i + 1]
    local counts, here = x[USED], is_live(x)
    if here then
      live[#live + 1] = x
    else
      counts = belief(x) -- nobody gives back what it has not used
      avail = max(avail - counts, 0)
    end
    if o ~= m then
      free = max(free - belief(x), 0)
      others = min(others + counts, MAX_SUM)
      if here then
        held = min(held + x[HELD], MAX_SUM)
        if (x[NOTE] or '') ~= '' then
          reply[n + 8] = reply[n + 8] + 1
          reply[#reply + 1] = now - x[TOLD]
          reply[#reply + 1] = x[NOTE]
        end
      end
    end
  end
  local part = min(max(target(h, live, avail), h.given or 0), free, promised(m, h, of))
  if lost.learning then
    part = min(h[HIGH], free)
  elseif h[KIND] == 'slots' and h[TAIL] > 0 and now <= began + 2 * TTL and not complete(expect) then
    part = min(part, h[HIGH])
  end
  h[HIGH] = max(h[HIGH], part)
  local all, gone, most, here = 0, 0, 0, 0
  if not lost.learning then all, gone, most, here = promise(m, h, of, limit_(h, of)) end
  if h[NEED] <= part then h[SINCE] = 0 end
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6], reply[n + 7] = part, others, held, all, gone, most, here
end

-- bequeath takes over what one who leaves used of periods.
local function bequeath(m)
  local keep, left = {}, {}
  for _, h in ipairs(m[HOLDS]) do
    local list = h[KIND] == 'period' and left or keep
    list[#list + 1] = h
  end
  m[HOLDS] = keep
  if #left == 0 then return end
  local to = member('')
  local of = by_name(to[HOLDS])
  to[SEEN] = now
  for _, h in ipairs(left) do
    local x = of[h[NAME]]
    if not x then
      x = {h[NAME], 'period', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0}
      to[HOLDS][#to[HOLDS] + 1], of[h[NAME]] = x, x
    end
    x[TOLD], x[ENDS], x[USED] = now, max(x[ENDS], h[ENDS]), min(x[USED] + belief(h), MAX_SUM)
    x[WANT] = x[USED]
  end
end

-- forget is in how many milliseconds the account may be forgotten.
local function forget()
  local last = declared and now + DECLARED or now
  for _, m in ipairs(members) do
    last = max(last, m[SEEN] + TTL)
    for _, h in ipairs(m[HOLDS]) do last = max(last, until_(h)) end
  end
  for _, u in ipairs(lost.untold) do last = max(last, until_(untold(u))) end
  return last - now
end

-- mark takes in what a hold has used, as of now.
local function mark(h)
  local old, more, marks, from = h[MARKS] or {}, h[USED], {}, 1
  for i = 2, #old, 2 do more = more - old[i] end
  while more < 0 and from < #old do
    if old[from + 1] + more > 0 then
      old[from + 1] = old[from + 1] + more
      break
    end
    more, from = more + old[from + 1], from + 2
  end
  for i = from, #old do marks[#marks + 1] = old[i] end
  if more > 0 then
    local n, second = #marks, floor(now / step_(h))
    if n > 0 and marks[n - 1] == second then
      marks[n] = marks[n] + more
    else
      marks[n + 1], marks[n + 2] = second, more
    end
  end
  h[MARKS] = marks
end

-- incarnation is the server's, asked for only where it matters because that takes longer than the rest.
local function incarnation()
  local _, name = server()
  return name
end

-- put_back reports whether what is kept does not know of its own last answer to who sends the beat at args[at]: somebody has put that back.
local function put_back(kept, at)
  local last = max(0, kept[2] - TTL - 1)
  for _, m in ipairs(kept[4]) do
    if m[INSTANCE] == args[at] then last = m[SEEN] end
  end
  return args[at + 6] == kept[5].epoch and args[at + 7] > last
end

-- load puts in place what is kept of an owner, as of now. It drops what was put back, if there is a beat at args[at].
local function load(key, at)
  now, began, members, lost, declared = 0, 0, {}, {born = 0, tellers = {}, untold = {}}, nil
  local was
  local blob = redis.call('GET', key)
  if blob then
    local kept = cmsgpack.unpack(blob)
    if type(kept) ~= 'table' or kept[1] ~= VERSION then return redis.error_reply('FOREIGN it is no account of version ' .. VERSION) end
    if not (at and kept[5] and put_back(kept, at)) then now, began, members, lost, was = kept[2], kept[3], kept[4], kept[5] or lost, kept[6] end
  end
  local clock_ = clock()
  if was and was == incarnation() then began = 1 elseif was or now == 0 or clock_ - now > TTL then began = clock_ end
  if not lost.epoch then
    if now == 0 then lost.born = clock_ end
    lost.epoch = max(1, clock_)
  end
  now = max(now, clock_)
  age()
end

local function save(key)
  for _, m in ipairs(members) do
    for _, h in ipairs(m[HOLDS]) do h.given = nil end
  end
  redis.call('SET', key, cmsgpack.pack({VERSION, now, began, members, lost, declared}), 'PX', forget() + WINDOW)
end

-- untaught reports whether the process of the beat at args[at] knows of an account that was lost, and has not told yet what.
local function untaught(at)
  local known = args[at + 6]
  if lost.born == 0 or known == 0 or known == lost.epoch then return false end
  for _, name in ipairs(lost.tellers) do
    if name == args[at] then return false end
  end
  return true
end

-- answer adds the answer to a beat that was taken in: its seq, epoch, 1 if that is learning, the time, and of each claim
-- what grant adds.
local function answer(m, seq, at, of, reply)
  reply[#reply + 1] = seq
  reply[#reply + 1] = lost.epoch
  reply[#reply + 1] = (lost.learning or untaught(at)) and 1 or 0
  reply[#reply + 1] = now
  for i = 1, args[at + 4] do
    local h = m[HOLDS][i]
    grant(m, h, of[h[NAME]], args[at + HEAD + CLAIM * (i - 1) + 19], reply)
    if args[at + 3] == 1 and h[KIND] == 'rolling' then mark(h) else h[MARKS] = false end
  end
  drop(m[HOLDS], idle)
  if args[at + 2] == 1 then bequeath(m) end
end
