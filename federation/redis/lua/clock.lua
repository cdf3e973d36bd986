-- The server's clock, in milliseconds.
local function clock()
  local time = redis.call('TIME')
  return math.floor(time[1] * 1000 + time[2] / 1000)
end
