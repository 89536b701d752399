-- The time, in microseconds since 1970, is read once: it may move while a script runs. A
-- caller's clock gives it as an argument. reading is its text: to format now would take longer.
local reading = ARGV[1]
local callers = reading ~= ''
if not callers then
  local time = redis.call('TIME')
  reading = time[1] .. string.sub('00000' .. time[2], -6)
end
local now = tonumber(reading)

-- expiry returns the options of SET that let a key expire at an instant: as one, so that nothing
-- depends on how long the script takes. Under a caller's clock there is no such instant: the key
-- is kept for a day longer than it counts by that clock. If the key expires at that instant
-- already, it is written faster if its expiry is kept.
local function expiry(instant, already)
  if callers then
    return 'PX', string.format('%.0f', math.max(math.ceil((instant - now) / 1000), 0) + 86400000)
  end
  if already then
    return 'KEEPTTL'
  end
  return 'PXAT', string.format('%.0f', math.ceil(instant / 1000))
end
