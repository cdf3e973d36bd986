-- KEYS[1] is the pool's, ARGV[1] the rules. It begins a memory that grants at once (Account.Declare), and returns nothing; or a node that
-- speaks against that, for how many milliseconds it has not been heard of, and for how many more what it used counts.
local now, incarnation, primary = server()
if not primary then return redis.error_reply('READONLY llmgov: this is a replica') end
local there, problem = load()
if problem then return redis.error_reply('FOREIGN ' .. problem) end
if not there then newAccount(now, incarnation) end
account.now = max(account.now, now)
local counts = WINDOW + TTL + SLOT
local unused = account.now < account.learning and not account.lost and used(1) == 0 and used(2) == 0
for _, name in ipairs(account.names) do
  local m = members[name]
  local ago = account.now - m.seen
  if live(m) or not unused and ago <= counts then return {name, ago, counts - ago} end
end
local epoch = max(account.epoch + 1, account.now)
newAccount(account.now, incarnation)
account.epoch, account.fresh, emptied = epoch, true, true
save()
return {}
