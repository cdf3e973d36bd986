-- KEYS[1] is the pool's, ARGV[1] the rules, ARGV[2] a federation.Beat as JSON, ARGV[3] the digest of its copy. It returns the reply.
local now, incarnation, primary = server()
if not primary then return redis.error_reply('READONLY llmgov: this is a replica') end
local there, problem = load()
if problem then return redis.error_reply('FOREIGN ' .. problem) end
if not there then newAccount(now, incarnation) end
local reply = beat(now, incarnation, cjson.decode(ARGV[2]))
save()
return reply
