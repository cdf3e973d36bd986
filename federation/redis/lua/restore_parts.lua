-- Restoring the account of an owner's limits (package federation/parts, restore.go).
--
-- lost is {epoch, born, learning, tellers, untold}: tellers are instances, and untold are {name, kind, ends, tail, sum, most,
-- had, told}, of which told are {heard, all, gone, lasted} of each teller.

-- note takes in what a process knows of one limit of the account before: a claim that begins at args[i].
local function note(i, heard)
  local u
  for _, x in ipairs(lost.untold) do
    if x.name == args[i] then u = x end
  end
  if not u then
    u = {name = args[i], kind = args[i + 1], ends = 0, tail = 0, sum = 0, most = 0, had = 0, told = {}}
    lost.untold[#lost.untold + 1] = u
  end
  local had = args[i + 18]
  local sum = args[i + 14] + had
  u.ends, u.tail = max(u.ends, args[i + 3]), max(u.tail, args[i + 13])
  u.most = max(u.most, min(args[i + 16] + had, max(args[i + 2], sum)))
  u.sum, u.had = max(u.sum, sum), min(u.had + had, MAX_SUM)
  u.told[#u.told + 1] = {heard, 1 + args[i + 17], args[i + 15], args[i + 21]}
end

-- recall takes in what a process knows of an account that was lost, in a beat that begins at args[at].
local function recall(at)
  local knows = untaught(at)
  if knows and #lost.tellers == 0 then lost.learning = true end
  if knows and args[at + 5] == lost.epoch then
    lost.tellers[#lost.tellers + 1] = args[at]
    for i = at + HEAD, at + HEAD + CLAIM * (args[at + 4] - 1), CLAIM do note(i, args[at + 7]) end
  end
  if not lost.learning then return end
  if #lost.tellers > 0 and now > lost.born + TTL or now > lost.born + TTL + WINDOW then
    lost.learning = nil
    began = now - 2 * TTL - 1
  end
end
