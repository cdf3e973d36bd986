-- Numbers, and amounts by slot (book.go).
--
-- All numbers of Lua are floats. No product of the protocol exceeds 2^53 (federation.MaxLimit), so
-- they are exact; and so is the floor of a quotient, for it is never rounded up to a whole number.

local floor, ceil, min, max, huge = math.floor, math.ceil, math.min, math.max, math.huge

-- The constants of the protocol (federation.Rules), all in milliseconds but for SLOTS.
local RULES = ARGV[1]
local WINDOW, SLOTS, BEAT, TTL = string.match(RULES, '^(%d+) (%d+) (%d+) (%d+)$')
WINDOW, SLOTS, BEAT, TTL = tonumber(WINDOW), tonumber(SLOTS), tonumber(BEAT), tonumber(TTL)
local SLOT = floor(WINDOW / SLOTS)
local SILENT = 3 * BEAT

-- AHEAD is for how many slots from now on anything may be booked.
local AHEAD = 2 * (SLOTS + floor(TTL / SLOT) + 1)

local MAX_LIMIT = 1e11
local MAX_BOOKED = 10 * MAX_LIMIT

-- Amounts are {tokens, requests}; k is an axis.
local AXES = 2

local function slotOf(t) return floor(t / SLOT) end

-- whole is a rate, rounded down, and never negative.
local function whole(x) return max(0, floor(x)) end

-- clamp is amounts, each not below zero or above high.
local function clamp(x, high)
  return {min(max(x[1], 0), high), min(max(x[2], 0), high)}
end

-- A book has each axis' amounts in an array, whose first element is of slot from.
local function newBook() return {from = 0, used = {{}, {}}} end

local function bookAt(book, slot, k) return book.used[k][slot - book.from + 1] or 0 end

-- bookSum is what is in the slots from … to, both included.
local function bookSum(book, from, to, k)
  local used, sum = book.used[k], 0
  for i = max(from - book.from + 1, 1), min(to - book.from + 1, #used) do
    sum = sum + used[i]
  end
  return sum
end

-- bookSince drops all before a slot.
local function bookSince(book, slot)
  local drop = slot - book.from
  if drop <= 0 then return end
  for k = 1, AXES do
    local used, rest = book.used[k], {}
    for i = drop + 1, #used do rest[i - drop] = used[i] end
    book.used[k] = rest
  end
  book.from = slot
end

-- bookAdd changes what is in a slot.
local function bookAdd(book, slot, tokens, requests)
  local t, r = book.used[1], book.used[2]
  if #t == 0 then book.from = slot end
  while slot < book.from do
    table.insert(t, 1, 0)
    table.insert(r, 1, 0)
    book.from = book.from - 1
  end
  local i = slot - book.from + 1
  for j = #t + 1, i do t[j], r[j] = 0, 0 end
  t[i], r[i] = t[i] + tokens, r[i] + requests
end

-- bookLast is the last slot in which there is anything, or 0.
local function bookLast(book)
  local t, r = book.used[1], book.used[2]
  for i = #t, 1, -1 do
    if t[i] ~= 0 or r[i] ~= 0 then return book.from + i - 1 end
    t[i], r[i] = nil, nil
  end
  return 0
end
