-- Gives units of an earlier charge back, or charges units that have been spent already.
--
--   KEYS[1]  the key
--   ARGV[1]  the time, or '' for the server's
--   ARGV[2]  the limits of the key
--   ARGV[3]  the units
--   ARGV[4]  where they were charged under each limit, to give them back; '': charge them
--   ARGV[5]  the token of the reservation; '': they are units of a lease that were not used
--   ARGV[6]  the end of the lease
--
-- It returns the time.

local key = open(KEYS[1], ARGV[2])
if not key then
  return redis.error_reply('SASH the value of a key is none of this version of sashredis')
end
local units = tonumber(ARGV[3])
if ARGV[4] == '' then
  for _, s in ipairs(key) do
    s.kind.charge(s, units)
  end
  close(key)
  return text(now)
end

-- The charge is forgotten if the key has expired or was reset, and was charged anew.
local reserved = ARGV[5] ~= ''
if reserved and key.token ~= ARGV[5] or not reserved and key.leaseEnd ~= tonumber(ARGV[6]) then
  return text(now)
end
local i = 0
for origin in gmatch(ARGV[4], '%S+') do
  i = i + 1
  key[i].kind.giveBack(key[i], units, tonumber(origin))
end
if not reserved then
  key.leased = math.max(key.leased - units, 0)
end
close(key)
return text(now)
