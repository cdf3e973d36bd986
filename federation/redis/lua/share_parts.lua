-- KEYS[1] is an owner's, and args are a beat. It returns the answer, or 0 to one that came late, or twice.
local foreign = load(KEYS[1], 1)
if foreign then return foreign end
local m, seq, reply = member(args[1]), args[2], {}
if seq > m[SEQ] then
  recall(1)
  answer(m, seq, 1, tell(m, seq, 1), reply)
else
  reply[1] = 0
end
save(KEYS[1])
return reply
