-- What all scripts share: exact integers, the time, and the state of a key.
--
-- A Lua number is a double: whole numbers are exact up to 2^53. Counts, windows and lengths of
-- time are below 2^51. A product of two of them is a pair (hi, lo) that stands for
-- hi*2^52 + lo. Remainders are those of math.fmod, which is exact; % is not. Numbers are
-- stored and answered as '%.0f', since Redis would write large ones with an exponent.

local LIMB = 67108864          -- 2^26
local BASE = 4503599627370496  -- 2^52
local EXACT = 9007199254740992 -- 2^53
local LONGEST = 2251799813685247 -- 2^51-1
local fmod, ceil, format, gmatch = math.fmod, math.ceil, string.format, string.gmatch

local function text(n) return format('%.0f', n) end

-- mul returns a*b, for 0 <= a, b < 2^51.
local function mul(a, b)
  local product = a * b
  if product < EXACT then
    local lo = fmod(product, BASE)
    return (product - lo) / BASE, lo
  end
  -- Multiply in limbs of 26 bits. No sum below reaches 2^53.
  local a0, b0 = fmod(a, LIMB), fmod(b, LIMB)
  local a1, b1 = (a - a0) / LIMB, (b - b0) / LIMB
  local middle = a1 * b0 + a0 * b1
  local low = fmod(middle, LIMB)
  local lo, hi = low * LIMB + a0 * b0, a1 * b1 + (middle - low) / LIMB
  if lo >= BASE then
    return hi + 1, lo - BASE
  end
  return hi, lo
end

local function less(ahi, alo, bhi, blo) return ahi < bhi or ahi == bhi and alo < blo end

local function add(ahi, alo, bhi, blo)
  local lo = alo + blo
  if lo >= BASE then
    return ahi + bhi + 1, lo - BASE
  end
  return ahi + bhi, lo
end

-- sub returns a-b, or 0 if that is less.
local function sub(ahi, alo, bhi, blo)
  if less(ahi, alo, bhi, blo) then
    return 0, 0
  end
  local lo = alo - blo
  if lo < 0 then
    return ahi - bhi - 1, lo + BASE
  end
  return ahi - bhi, lo
end

-- divide returns floor(t/d) and the remainder.
local function divide(t, d)
  local rest = fmod(t, d)
  if rest < 0 then
    rest = rest + d
  end
  return (t - rest) / d, rest
end

-- A state is what a key was charged under one limit. The functions of its kind are:
--   load(s, field)  reads it from its text, and sets s.ahead, by how many windows it is ahead of
--                   the time, if that is more than 0
--   fits(s, units)  reports whether that many more units fit now
--   charge(s, units)
--   giveBack(s, units, origin)  undoes a charge: origin tells where it was recorded
--   save(s)         returns its text, and the instant from which on it is that of a key never
--                   seen
--   answer(s)       returns what the caller computes the rest of the answer from
-- and, of some kinds,
--   reserve(s)      is called before a charge that may be given back
--   denied(s, units, charged)  is called when units do not fit after the charged ones
--   leases(s, units)  reports whether that many units may be leased at one time
--   ends(s)         returns the instant at which the window, bucket or part of a charge ends
local kinds = {}
