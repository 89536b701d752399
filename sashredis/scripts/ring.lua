-- SlidingLog, SlidingBuckets and Concurrency.
--
-- The key is a sorted set, and the units charged in a tick are a member: the letter of the
-- limit, the tick, and the units charged up to its end since ever, modulo 2^52. All scores
-- are 0, so members are in the order of their texts: by tick. The units that count are those
-- of the newest member less those of the newest that does not count, which is kept for that,
-- and less the units that were given back since.
--
-- No total changes when units are given back: that would be all later ones. The units given
-- back of a tick are a sum of powers of two, and each power is a member of its own: the letter
-- of the limit, '~', the letter of the power, and the tick. So all that was given back in some
-- ticks is told by counting the members of each power there. Only a key with a token has given
-- back anything.
--
-- A tick of which all units were given back has no member, unless it is the newest:
--   - That goes with the next charge. No other total has its units.
--   - If it is the oldest that counts, its total is moved to a tick which does not count.
--   - Of any other, the units are then charged in the tick after it, and given back there.
-- So what a key keeps of units that come and go does not grow for ever.
--
-- Concurrency is a log of the units that are held. What differs is only what a settlement gives back.
local ring = {sorted = true}
kinds.r, kinds.h = ring, ring
countTicks(ring)

local function digits(tick) return format('%016.0f', tick + BASE) end

local function member(s, tick, total) return s.letter .. digits(tick) .. format('%016.0f', total) end

-- parse returns the tick and the total of a member.
local function parse(m) return tonumber(string.sub(m, 2, 17)) - BASE, tonumber(string.sub(m, 18)) end

-- between returns the units charged between two totals.
local function between(total, earlier)
  local units = total - earlier
  if units < 0 then
    return units + BASE
  end
  return units
end

-- back returns the prefix of the members of a power, before the tick.
local function back(s, power) return s.letter .. '~' .. string.char(65 + power) end

-- powers returns how many powers of two may have members.
local function powers(s)
  if s.key.token == '' then
    return 0
  end
  local last = redis.call('ZREVRANGEBYLEX', s.key.name, '(' .. s.letter .. '~~', '[' .. s.letter .. '~', 'LIMIT', 0, 1)[1]
  return last and string.byte(last, 3) - 64 or 0
end

-- givenBack returns the units given back from one tick to another, modulo 2^52.
local function givenBack(s, from, to)
  local units, each = 0, 1
  for power = 0, s.powers - 1 do
    local count = redis.call('ZLEXCOUNT', s.key.name, '[' .. back(s, power) .. digits(from), '[' .. back(s, power) .. digits(to))
    units = fmod(units + fmod(count * each, BASE), BASE) -- a count times a power of two is exact
    each = 2 * each
  end
  return units
end

-- setGivenBack makes the units given back of a tick others.
local function setGivenBack(s, tick, before, units)
  local key, power = s.key.name, 0
  while before + units > 0 do
    local had, has = fmod(before, 2), fmod(units, 2)
    if has > had then
      redis.call('ZADD', key, 0, back(s, power) .. digits(tick))
      s.powers = math.max(s.powers, power + 1)
    elseif has < had then
      redis.call('ZREM', key, back(s, power) .. digits(tick))
    end
    before, units, power = (before - had) / 2, (units - has) / 2, power + 1
  end
end

-- counting returns the units that count up to a tick with that total.
local function counting(s, total, tick)
  return between(between(total, s.base), givenBack(s, s.tick - s.b + 1, tick))
end

function ring.load(s)
  local key = s.key.name
  s.tick = divide(now, s.a)
  s.newest, s.total, s.base, s.used, s.ahead, s.powers = nil, 0, 0, 0, 0, powers(s)
  if s.key.anew then
    s.before = nil
    return
  end
  local last = redis.call('ZREVRANGEBYLEX', key, '(' .. s.letter .. '~', '[' .. s.letter, 'LIMIT', 0, 2)
  if #last == 0 then
    return
  end
  s.newest, s.total = parse(last[1])
  s.ahead = (s.newest - s.tick) / s.b
  s.tick = math.max(s.tick, s.newest) -- the clock may be late
  s.lastUnits, s.newestBack = s.newest, givenBack(s, s.newest, s.newest)
  if last[2] then
    local tick, total = parse(last[2])
    if between(s.total, total) == s.newestBack then -- all units of the newest were given back
      s.lastUnits = tick
    end
  end
  s.first = '[' .. s.letter .. digits(s.tick - s.b + 1)
  local before = redis.call('ZREVRANGEBYLEX', key, '(' .. string.sub(s.first, 2), '[' .. s.letter, 'LIMIT', 0, 1)[1]
  if before then
    s.before = before
    local _, total = parse(before)
    s.base = total
  end
  s.used = counting(s, s.total, s.newest)
end

-- charge writes at once. What is new is added before what is old is removed, here and below: if
-- the key was gone for a moment while its slot moves to another node, this one would refuse the
-- rest of the script.
function ring.charge(s, units)
  local key = s.key.name
  if s.before then -- only the newest member that does not count is needed
    redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, '(' .. s.before)
    for power = 0, s.powers - 1 do
      redis.call('ZREMRANGEBYLEX', key, '[' .. back(s, power), '(' .. back(s, power) .. string.sub(s.first, 3))
    end
  end
  local last = s.newest and member(s, s.newest, s.total)
  if last == s.before then
    last = nil -- it does not count
  end
  local empty = last and s.newest ~= s.lastUnits -- all units of the newest were given back
  if empty then -- none of the totals of others has them, so they go
    s.total = between(s.total, s.newestBack)
  end
  local total = math.min(s.used + units, LONGEST) - s.used + s.total
  if total >= BASE then
    total = total - BASE
  end
  local newest = member(s, s.tick, total)
  redis.call('ZADD', key, 0, newest)
  if s.key.anew then
    redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, '(' .. newest)
    redis.call('ZREMRANGEBYLEX', key, '(' .. newest, '(' .. s.letter .. '~~')
  end
  if empty then
    setGivenBack(s, s.newest, s.newestBack, 0)
  end
  if last and last ~= newest and (empty or s.newest == s.tick) then -- it is empty, or grows
    redis.call('ZREM', key, last)
  end
  s.newest, s.total = s.tick, total
end

-- earlier returns the member before a tick, or nil.
local function earlier(s, tick)
  return redis.call('ZREVRANGEBYLEX', s.key.name, '(' .. s.letter .. digits(tick), '[' .. s.letter, 'LIMIT', 0, 1)[1]
end

-- forget forgets all units, and the time of the newest charge. It writes at once.
function ring.forget(s) redis.call('ZREMRANGEBYLEX', s.key.name, '[' .. s.letter, '(' .. s.letter .. '~~') end

-- giveBack writes at once.
function ring.giveBack(s, units, tick)
  if not s.newest or tick <= s.tick - s.b then
    return
  end
  local key, limit = s.key.name, '(' .. s.letter .. '~'
  local members = redis.call('ZRANGEBYLEX', key, '[' .. s.letter .. digits(tick), limit, 'LIMIT', 0, 2)
  if not members[1] or parse(members[1]) ~= tick then
    return
  end
  local _, total = parse(members[1])
  local previous, base = earlier(s, tick), 0
  if previous then
    _, base = parse(previous)
  end
  local charged, before = between(total, base), givenBack(s, tick, tick) -- charged with those given back
  units = math.min(units, between(charged, before))
  local oldest = s.newest - s.b -- the newest tick that did not count at the newest charge
  if units == s.used and not (s.before and parse(s.before) > oldest) then
    -- No unit is left at the time of the newest charge, so the key forgets that time. A unit that does not
    -- count any more may have counted then.
    ring.forget(s)
  elseif not members[2] or units < between(charged, before) then
    setGivenBack(s, tick, before, fmod(before + units, BASE))
  elseif previous and parse(previous) > oldest then -- the member goes, and the next has its units
    local following = parse(members[2])
    local back = givenBack(s, following, following)
    setGivenBack(s, following, back, fmod(back + charged, BASE))
    setGivenBack(s, tick, before, 0)
    redis.call('ZREM', key, members[1])
  else -- it is the oldest: its total becomes that of a tick which does not count
    redis.call('ZADD', key, 0, member(s, oldest, total))
    setGivenBack(s, tick, before, 0)
    redis.call('ZREM', key, members[1])
    if previous and previous ~= member(s, oldest, total) then
      redis.call('ZREM', key, previous)
    end
  end
end

function ring.save(s) return '', (s.tick + s.b) * s.a end

function ring.freedAt(s, units)
  local key = s.key.name
  local oldest = redis.call('ZRANGEBYLEX', key, s.first, '(' .. s.letter .. '~', 'LIMIT', 0, 1)[1]
  local tick, total = parse(oldest)
  if units == 1 or counting(s, total, tick) >= units then -- a member that counts has a unit
    return tick
  end
  -- Search by rank. That many units are not reached at low, and are reached at high.
  local low = redis.call('ZRANK', key, oldest)
  local high = redis.call('ZRANK', key, member(s, s.newest, s.total))
  tick = s.newest
  while high - low > 1 do
    local middle = low + math.floor((high - low) / 2)
    local t, reached = parse(redis.call('ZRANGE', key, middle, middle)[1])
    if counting(s, reached, t) >= units then
      high, tick = middle, t
    else
      low = middle
    end
  end
  return tick
end
