-- The fast path of one call, or of several alike that are all admitted, on a key with one
-- TokenBucket, where doubles are exact, if there are no leases and reservations. If it cannot
-- tell, it has no effect. See bucket.lua for what it does.

if now >= 0 and not KEYS[2] and ARGV[3] == '' and ARGV[4] == '' then
  local match, format = string.match, string.format
  local units, times = match(ARGV[2], '^([1-9]%d*)[+^](%d+)$')
  local window, count, burst = match(ARGV[5], '^t (%d+) (%d+) (%d+);%d*$')
  if units and window then
    units, window, count, burst = units * times, tonumber(window), tonumber(count), tonumber(burst)
    local stored, at, lack = redis.call('GET', KEYS[1]), now, 0
    if stored then
      at, lack = match(stored, '^(%d+) 0 (%d+);;;$')
      at, lack = tonumber(at), tonumber(lack)
    end
    local flowed = at and at <= now and (now - at) * count
    if flowed and flowed < 9007199254740992 and burst * window < 4503599627370496 then
      lack = math.max(lack - flowed, 0)
      local admitted = units <= burst and lack <= (burst - units) * window
      if admitted then
        local charged = lack + units * window
        redis.call('SET', KEYS[1], format('%s 0 %.0f;;;', reading, charged),
          expiry(now + charged / count * (1 + 1e-9) + 1))
      end
      if admitted or times == '1' then
        return format('%s|%s|0 0||0 %.0f 0 0', reading, admitted and times or '0', lack)
      end
    end
  end
end
