-- KEYS[1] is an owner's, and args are empty. It declares the account new (Account.Declare of package parts), and returns 1, or 0 if it is in use.
local foreign = load(KEYS[1])
if foreign then return foreign end
for _, m in ipairs(members) do
  if m[INSTANCE] ~= '' and m[SEEN] + TTL >= now then return 0 end
  for _, h in ipairs(m[HOLDS]) do
    if m[INSTANCE] ~= '' and is_live(h) or h[KIND] == 'slots' and belief(h) > 0 then return 0 end
  end
end
declared = incarnation()
save(KEYS[1])
return 1
