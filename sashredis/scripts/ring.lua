-- SlidingLog and SlidingBuckets: a is the length of a tick, b the number of ticks in which a
-- unit counts, c the count. A tick is a microsecond of a log and a bucket of buckets.
--
-- The key is a sorted set, and the units charged in a tick are a member: the letter of the
-- limit, the tick, and the units charged up to its end since ever, modulo 2^52. All scores
-- are 0, so members are in the order of their texts: by tick. The units that count are those
-- of the newest member less those of the newest that does not count, which is kept for that.
local ring = {}
kinds.r = ring

local function member(s, tick, total) return s.letter .. format('%016.0f%016.0f', tick + BASE, total) end

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

function ring.load(s)
  local key = s.key.name
  s.tick = divide(now, s.a)
  s.newest, s.total, s.base, s.used = nil, 0, 0, 0
  local last = redis.call('ZREVRANGEBYLEX', key, '(' .. s.letter .. '~', '[' .. s.letter, 'LIMIT', 0, 2)
  if #last == 0 then
    return
  end
  s.newest, s.total = parse(last[1])
  s.tick = math.max(s.tick, s.newest) -- the clock may be late
  s.lastUnits = s.newest
  if last[2] then
    local tick, total = parse(last[2])
    if total == s.total then -- all units of the newest were given back
      s.lastUnits = tick
    end
  end
  s.first = '[' .. s.letter .. format('%016.0f', s.tick - s.b + 1 + BASE)
  local before = redis.call('ZREVRANGEBYLEX', key, '(' .. string.sub(s.first, 2), '[' .. s.letter, 'LIMIT', 0, 1)[1]
  if before then
    s.before = before
    local _, total = parse(before)
    s.base = total
  end
  s.used = between(s.total, s.base)
end

function ring.fits(s, units) return s.used + units <= s.c end

-- charge writes at once. What is new is added before what is old is removed, here and below: if
-- the key was gone for a moment while its slot moves to another node, this one would refuse the
-- rest of the script.
function ring.charge(s, units)
  local key = s.key.name
  if s.before then -- only the newest member that does not count is needed
    redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, '(' .. s.before)
  end
  local total = math.min(s.used + units, LONGEST) - s.used + s.total
  if total >= BASE then
    total = total - BASE
  end
  local last, newest = s.newest and member(s, s.newest, s.total), member(s, s.tick, total)
  redis.call('ZADD', key, 0, newest)
  if last and last ~= s.before and last ~= newest and (s.newest == s.tick or s.newest ~= s.lastUnits) then -- it grows, or is empty
    redis.call('ZREM', key, last)
  end
  s.newest, s.total = s.tick, total
end

-- giveBack writes at once. All totals from that of the tick on become less.
function ring.giveBack(s, units, tick)
  if not s.newest or tick <= s.tick - s.b then
    return
  end
  local key = s.key.name
  local start, limit = s.letter .. format('%016.0f', tick + BASE), '(' .. s.letter .. '~'
  local members = redis.call('ZRANGEBYLEX', key, '[' .. start, limit)
  if not members[1] or parse(members[1]) ~= tick then
    return
  end
  local _, charged = parse(members[1])
  local before = redis.call('ZREVRANGEBYLEX', key, '(' .. start, '[' .. s.letter, 'LIMIT', 0, 1)[1]
  local earlier = 0
  if before then
    _, earlier = parse(before)
  end
  local back = math.min(units, between(charged, earlier))
  if back == s.used then -- no unit is left: the key forgets the time that it has seen
    redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, limit)
    return
  end
  for i, m in ipairs(members) do
    local t, total = parse(m)
    local less
    -- An empty member is kept only if it is the newest, for the time that the key has seen.
    if i > 1 or i == #members or between(charged, back) ~= earlier then
      less = member(s, t, between(total, back))
      redis.call('ZADD', key, 0, less)
    end
    if less ~= m then
      redis.call('ZREM', key, m)
    end
  end
end

function ring.ends(s) return (s.tick + 1) * s.a end

function ring.save(s) return '', (s.tick + s.b) * s.a end

-- freedAt returns the tick of the oldest units that count, that many of them. 0 < units <= used.
local function freedAt(s, units)
  local key = s.key.name
  local oldest = redis.call('ZRANGEBYLEX', key, s.first, '(' .. s.letter .. '~', 'LIMIT', 0, 1)[1]
  local tick, total = parse(oldest)
  if between(total, s.base) >= units then
    return tick
  end
  -- Search by rank. That many units are not reached at low, and are reached at high.
  local low = redis.call('ZRANK', key, oldest)
  local high = redis.call('ZRANK', key, member(s, s.newest, s.total))
  tick = s.newest
  while high - low > 1 do
    local middle = low + math.floor((high - low) / 2)
    local t, reached = parse(redis.call('ZRANGE', key, middle, middle)[1])
    if between(reached, s.base) >= units then
      high, tick = middle, t
    else
      low = middle
    end
  end
  return tick
end

-- denied notes when the oldest units go that units, after the charged ones, wait for: the
-- caller cannot tell from their sum.
function ring.denied(s, units, charged)
  local missing = s.used + charged + units - s.c
  if units <= s.c and missing > 1 and missing <= s.used and missing ~= s.missing then
    s.missing = missing
    s.freed = (s.freed or '') .. ' ' .. text(missing) .. ' ' .. text(freedAt(s, missing))
  end
end

-- answer returns the units that count, the tick of the time, the tick of the newest units, and
-- for some numbers of units in which tick the last of that many oldest units was charged.
function ring.answer(s)
  local answer = text(s.used) .. ' ' .. text(s.tick) .. ' '
  if s.used == 0 then
    return answer .. text(s.tick)
  end
  return answer .. text(s.lastUnits) .. ' 1 ' .. text(freedAt(s, 1)) .. (s.freed or '')
end
