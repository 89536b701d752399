-- The time, in microseconds since 1970, is read once: it may move while a script runs. A
-- caller's clock gives it as an argument.
local now
local callers = ARGV[1] ~= ''
if callers then
  now = tonumber(ARGV[1])
else
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- expiry returns the options of SET that let a key expire at an instant: as one, so that nothing
-- depends on how long the script takes. Under a caller's clock there is no such instant: the key
-- is kept for a day longer than it counts by that clock.
local function expiry(instant)
  if callers then
    return 'PX', string.format('%.0f', math.max(math.ceil((instant - now) / 1000), 0) + 86400000)
  end
  return 'PXAT', string.format('%.0f', math.ceil(instant / 1000))
end
