-- KEYS[1] is the pool's, ARGV[1] the rules. It returns what federation.View has, or nothing of a pool
-- that is not known; and before it what the server does when its memory is full. It writes nothing.
local now, _, primary = server()
if not primary then return redis.error_reply('READONLY llmgov: this is a replica') end
local there, problem = load()
if problem then return redis.error_reply('FOREIGN ' .. problem) end
if not there then return false end
account.now = max(account.now, now)
local from, to = slotOf(account.now) - SLOTS, slotOf(account.now)
survey()
local memory = redis.call('INFO', 'memory')
local full = string.match(memory, '\nmaxmemory:0%s') and 'noeviction' or string.match(memory, 'maxmemory_policy:([%w-]+)')
local view = {
  full or 'not known',
  account.epoch, account.now, account.learning > account.now and account.learning or 0,
  string.format('%.17g', account.level),
  sums[1].limit, sums[2].limit, bookSum(booked, from, to, 1), bookSum(booked, from, to, 2),
}
local books = read('b:', account.names)
for _, name in ipairs(account.names) do
  local m, own = members[name], books[name]
  local g, h = m.grant[1], m.grant[2]
  view[#view + 1] = {
    name, m.region, m.address, m.seen, live(m) and 1 or 0,
    bookSum(own, from, to, 1), bookSum(own, from, to, 2),
    m.held[1], m.held[2], m.waiting[1], m.waiting[2],
    g[1], g[2], g[3], h[1], h[2], h[3],
  }
end
return view
