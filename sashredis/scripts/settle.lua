-- Settles units that were charged, to what was used of them. What is left over is given back, and
-- what was spent past them is charged. Under limits of units that are held, all of them are given
-- back, and nothing is charged.
--
--   KEYS[1]  the key
--   ARGV[1]  the time, or '' for the server's
--   ARGV[2]  the limits of the key
--   ARGV[3]  the units that are left over; below 0, those that were spent past the charged ones
--   ARGV[4]  where the units were charged under each limit
--   ARGV[5]  the token with which they were charged
--   ARGV[6]  '', or the end of the lease of which they were not used
--   ARGV[7]  the units that were charged
--
-- It returns the time.

local key = open(KEYS[1], ARGV[2])
if not key then
  return redis.error_reply('SASH the value of a key is none of this version of sashredis')
end
local left, charged = tonumber(ARGV[3]), tonumber(ARGV[7])
-- The charge is forgotten if the key has expired or was reset, and was charged anew.
local known = key.token == ARGV[5]
if left >= 0 and not known then
  return text(now)
end
key.settledEnd = tonumber(ARGV[6])
local i = 0
for origin in gmatch(ARGV[4], '%S+') do
  i = i + 1
  local s = key[i]
  local units = s.held and charged or left
  if units < 0 then
    s.kind.charge(s, -units)
  elseif units > 0 and known then
    s.kind.giveBack(s, units, tonumber(origin))
  elseif key.anew then -- what was held before must not let the key begin anew again, without the charge
    s.kind.forget(s)
  end
end
if key.settledEnd == key.leaseEnd then
  key.leased = math.max(key.leased - left, 0)
end
close(key)
return text(now)
