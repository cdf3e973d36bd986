-- KEYS[1] is that of a day, and ARGV are for how many milliseconds it is kept, and fields with their figures, of which the larger ones count.
for i = 2, #ARGV, 2 do
  local figures, told = {}, redis.call('HMGET', KEYS[1], ARGV[i])[1]
  for n in string.gmatch(ARGV[i + 1], '%d+') do figures[#figures + 1] = n end
  local at = 0
  for n in string.gmatch(told or '', '%d+') do
    at = at + 1
    if tonumber(n) > tonumber(figures[at] or 0) then figures[at] = n end
  end
  redis.call('HSET', KEYS[1], ARGV[i], table.concat(figures, ' '))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
