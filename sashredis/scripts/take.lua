-- Decides calls on keys, in their order, each all or nothing.
--
--   KEYS     the keys
--   ARGV[1]  the time, or '' for the server's
--   ARGV[2]  the calls: 'UNITS+TIMES' for calls that are charged if they are admitted,
--            'UNITS?TIMES' for ones that are not charged, and '1^MOST' for one that takes what
--            there is: it is as that many calls for one unit. '-LEAVE,LEAVE' may follow: units
--            that must remain of each key
--   ARGV[3]  '', or a token: the calls are reservations, or a lease is wanted
--   ARGV[4]  '', or 'UNITS LENGTH END': a lease is wanted of that many units, for that time; the
--            caller's last lease ended at END
--   ARGV[5]  and so on: the limits of each key
--
-- It returns, separated by '|': the time; of each group of calls, how many were admitted, all
-- of which came before those that were denied; the units and the end of the lease; the token
-- of each key; and the state of each key under each limit before the calls.

local keys, states = {}, {}
for i, name in ipairs(KEYS) do
  local key = open(name, ARGV[4 + i])
  if not key then
    return redis.error_reply('SASH the value of a key is none of this version of sashredis')
  end
  keys[i] = key
  for _, s in ipairs(key) do
    states[#states + 1] = s
  end
end

-- fits reports whether that many units fit under all limits, next to those that must remain.
local function fits(units)
  for _, s in ipairs(states) do
    if not s.kind.fits(s, units + s.key.leave) then
      return false
    end
  end
  return true
end

-- admitted returns how many of times calls for units are admitted one after the other, after
-- charged units.
local function admitted(units, times, charged)
  if fits(charged + units * times) then
    return times
  end
  if times == 1 or not fits(charged + units) then
    return 0
  end
  local low, high = 1, times -- low are admitted, high are not
  while high - low > 1 do
    local middle = low + math.floor((high - low) / 2)
    if fits(charged + units * middle) then
      low = middle
    else
      high = middle
    end
  end
  return low
end

local charged, counts, answers = 0, {}, {}
for units, operation, times, leaves in gmatch(ARGV[2], '(%d+)(%p)(%d+)%-?([%d,]*)') do
  units, times = tonumber(units), tonumber(times)
  for _, key in ipairs(keys) do
    key.leave = 0
  end
  local i = 0
  for leave in gmatch(leaves, '%d+') do
    i = i + 1
    keys[i].leave = tonumber(leave)
  end
  local count
  if operation ~= '?' and units > 0 then
    count = admitted(units, times, charged)
    charged = charged + units * count
  else
    count = fits(charged + units) and times or 0
  end
  counts[#counts + 1] = text(count)
  if count < times then
    for _, s in ipairs(states) do
      if s.kind.denied then
        s.kind.denied(s, units + s.key.leave, charged)
      end
    end
  end
end
for _, s in ipairs(states) do
  answers[#answers + 1] = s.kind.answer(s)
end

-- A lease leaves others as much for each process that had one in the same time.
local leased, key = 0, keys[1]
if ARGV[4] ~= '' and charged > 0 then
  local want, length, last = string.match(ARGV[4], '(%S+) (%S+) (%S+)')
  local ending, before, lessees = key.leaseEnd, key.leased, key.lessees
  key.leave = 0
  if now >= ending then -- nobody has a lease
    ending, before, lessees, last = now + tonumber(length), 0, 0, '-1'
    for _, s in ipairs(key) do
      ending = s.kind.ends and math.min(ending, s.kind.ends(s)) or ending
    end
  end
  if tonumber(last) ~= ending then
    lessees = lessees + 1
  end
  -- leasable reports whether units may be leased.
  local function leasable(units)
    for _, s in ipairs(key) do
      if s.kind.leases and not s.kind.leases(s, before + units) then
        return false
      end
    end
    return fits(charged + 2 * lessees * units)
  end
  leased = tonumber(want)
  while leased > 0 and not leasable(leased) do
    leased = math.floor(leased / 2)
  end
  if leased > 0 then
    key.leaseEnd, key.leased, key.lessees = ending, before + leased, lessees
  end
end

local tokens = {}
for i, k in ipairs(keys) do
  if charged + leased > 0 then
    if k.token == '' then
      k.token = (ARGV[4] == '' or leased > 0) and ARGV[3] or ''
    end
    for _, s in ipairs(k) do
      if ARGV[3] ~= '' and ARGV[4] == '' and s.kind.reserve then
        s.kind.reserve(s)
      end
      s.kind.charge(s, charged + leased)
    end
    close(k)
  end
  tokens[i] = k.token
end

return table.concat({text(now), table.concat(counts, ' '), text(leased) .. ' ' .. text(key.leaseEnd),
  table.concat(tokens, ' '), table.concat(answers, ';')}, '|')
