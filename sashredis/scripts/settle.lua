-- Gives units of an earlier charge back, or charges units that have been spent already.
--
--   KEYS[1]  the key
--   ARGV[1]  the time, or '' for the server's
--   ARGV[2]  the limits of the key
--   ARGV[3]  the units
--   ARGV[4]  where they were charged under each limit, to give them back; '': charge them
--   ARGV[5]  the token with which they were charged
--   ARGV[6]  '', or the end of the lease of which they were not used
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
if key.token ~= ARGV[5] then
  return text(now)
end
key.settledEnd = tonumber(ARGV[6])
local i = 0
for origin in gmatch(ARGV[4], '%S+') do
  i = i + 1
  key[i].kind.giveBack(key[i], units, tonumber(origin))
end
if key.settledEnd == key.leaseEnd then
  key.leased = math.max(key.leased - units, 0)
end
close(key)
return text(now)
