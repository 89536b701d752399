-- TokenBucket: a is the window, b the count, c the burst. The text is an instant and what the
-- bucket lacked then, in units of 1/window. Then, if units were ever reserved, the number of
-- the last charge, and for charges since: its number and what the bucket lacked when it came.
-- These lows increase.
--
-- While a lease runs, until key.leaseEnd, the bucket does not lack less than what was leased:
-- a unit may be used as late as that.
local bucket = {}
kinds.t = bucket

-- flowed returns lack less what flows into the bucket in that time, but not below least.
local function flowed(s, hi, lo, time, leastHi, leastLo)
  if time > 0 then
    local flowHi, flowLo = mul(math.min(time, LONGEST), s.b)
    hi, lo = sub(hi, lo, flowHi, flowLo)
  end
  if less(hi, lo, leastHi, leastLo) then
    return leastHi, leastLo
  end
  return hi, lo
end

function bucket.load(s, field)
  s.at, s.hi, s.lo, s.lows, s.number, s.lateHi, s.ahead = now, 0, 0, {}, nil, nil, 0
  local numbers = {}
  for number in gmatch(field, '%S+') do
    numbers[#numbers + 1] = tonumber(number)
  end
  if #numbers == 0 then
    return
  end
  local at, hi, lo = numbers[1], numbers[2], numbers[3]
  s.number = numbers[4]
  for i = 5, #numbers, 3 do
    s.lows[#s.lows + 1] = {number = numbers[i], hi = numbers[i + 1], lo = numbers[i + 2]}
  end
  if now < at and hi + lo > 0 then -- a late reading: it lacks more by what flows in until then
    s.at, s.hi, s.lo, s.ahead = at, hi, lo, (at - now) / s.a
    s.lateHi, s.lateLo = mul(math.min(at - now, LONGEST), s.b)
    return
  end
  local ending = s.key.leaseEnd
  if at < ending then
    local leastHi, leastLo = mul(s.key.leased, s.a)
    local till = math.min(now, ending)
    hi, lo = flowed(s, hi, lo, till - at, leastHi, leastLo)
    at = till
  end
  s.hi, s.lo = flowed(s, hi, lo, now - at, 0, 0)
end

-- lack returns what the bucket lacks at the reading of the clock.
local function lack(s)
  if s.lateHi then
    return add(s.hi, s.lo, s.lateHi, s.lateLo)
  end
  return s.hi, s.lo
end

function bucket.fits(s, units)
  if units > s.c then
    return false
  end
  local hi, lo = lack(s)
  local roomHi, roomLo = mul(s.c - units, s.a)
  return not less(roomHi, roomLo, hi, lo)
end

-- No number comes again, not even after the key has expired.
function bucket.reserve(s)
  s.first = not s.number
  s.number = math.max(s.number or now, now)
end

-- note notes what the bucket lacks now, when a charge comes. Earlier lows that are not less
-- are none any more. Before the first reservation there is nothing to give back.
local function note(s)
  s.number = s.number + 1
  if s.first then
    return
  end
  local hi, lo = lack(s)
  if now < s.key.leaseEnd then -- what is leased has not flowed back, and may not be used at all
    local leasedHi, leasedLo = mul(s.key.leased, s.a)
    hi, lo = sub(hi, lo, leasedHi, leasedLo)
  end
  local lows = s.lows
  while #lows > 0 and not less(lows[#lows].hi, lows[#lows].lo, hi, lo) do
    lows[#lows] = nil
  end
  lows[#lows + 1] = {number = s.number, hi = hi, lo = lo}
  if #lows > 64 then -- keep one of two: the number of the later, and the lack of the earlier
    s.lows = {}
    for i = 1, 64, 2 do
      s.lows[#s.lows + 1] = {number = lows[i + 1].number, hi = lows[i].hi, lo = lows[i].lo}
    end
    s.lows[#s.lows + 1] = lows[65]
  end
end

function bucket.charge(s, units)
  if s.number then
    note(s)
  end
  local hi, lo = mul(math.min(units, LONGEST), s.a)
  s.hi, s.lo = add(s.hi, s.lo, hi, lo)
  s.hi = math.min(s.hi, LONGEST) -- it may be spent past the burst, over and over
end

-- giveBack gives back what the bucket would not lack if the units of the charge of that number
-- had never been charged: no more than it lacked at any time since. Units of a lease, whose
-- number is 0, have not been used, and have not flowed back as long as it runs.
function bucket.giveBack(s, units, number)
  local hi, lo = mul(units, s.a)
  if number == 0 then
    if now < s.key.leaseEnd and s.key.leaseEnd == s.key.settledEnd then
      s.hi, s.lo = sub(s.hi, s.lo, hi, lo)
    end
    return
  end
  local later = 1
  while s.lows[later] and s.lows[later].number <= number do
    later = later + 1
  end
  local least = s.lows[later]
  if least and less(least.hi, least.lo, hi, lo) then
    hi, lo = least.hi, least.lo
  end
  local lows = {}
  for i, low in ipairs(s.lows) do
    if i >= later then -- at each of these charges, the bucket would have lacked less
      low.hi, low.lo = sub(low.hi, low.lo, hi, lo)
    end
    while #lows > 0 and not less(lows[#lows].hi, lows[#lows].lo, low.hi, low.lo) do
      lows[#lows] = nil
    end
    lows[#lows + 1] = low
  end
  s.lows = lows
  s.hi, s.lo = sub(s.hi, s.lo, hi, lo)
end

function bucket.save(s)
  local field = {text(s.at), text(s.hi), text(s.lo)}
  if s.number then
    field[4] = text(s.number)
  end
  for _, low in ipairs(s.lows) do
    field[#field + 1] = text(low.number) .. ' ' .. text(low.hi) .. ' ' .. text(low.lo)
  end
  -- A double is near enough for when it is full, if it is not too early.
  local full = s.b > 0 and (s.hi * BASE + s.lo) / s.b * (1 + 1e-9) or LONGEST
  return table.concat(field, ' '), math.max(s.at, s.key.leaseEnd) + math.min(full, LONGEST) + 1
end

-- leases reports whether units may be leased in all while one lease runs. As what is leased does
-- not flow back, more would starve other calls.
function bucket.leases(s, units) return 2 * units <= s.c end

-- answer returns what the bucket lacks now, what is leased until when, and its number.
function bucket.answer(s)
  local hi, lo = lack(s)
  local answer = text(hi) .. ' ' .. text(lo) .. ' ' .. text(s.key.leased) .. ' ' .. text(s.key.leaseEnd)
  return s.number and answer .. ' ' .. text(s.number) or answer
end
