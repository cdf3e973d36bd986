-- The server that remembers: what its clock shows, and which memory this is.
--
-- The name of the history changes whenever a write may have been lost: with each start of a
-- server, and with each promotion of a replica. It stays with all else.
local function server()
  local info = redis.call('INFO', 'replication')
  local time = redis.call('TIME')
  local primary = string.find(info, 'role:master', 1, true) ~= nil
  return math.floor(time[1] * 1000 + time[2] / 1000), string.match(info, 'master_replid:(%w+)'), primary
end
