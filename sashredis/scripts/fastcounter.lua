-- The fast path of one call, or of several alike that are all admitted, on a key with one
-- SlidingCounter, where doubles tell. If it cannot tell, it has no effect. See counter.lua
-- for what it does.

if now >= 0 and not KEYS[2] and ARGV[3] == '' and ARGV[4] == '' then
  local match, format = string.match, string.format
  local units, times = match(ARGV[2], '^([1-9]%d*)%+(%d+)$')
  local window, count = match(ARGV[5], '^c (%d+) (%d+);%d*$')
  local index, previous, current, rest
  if units and window then
    units, window, count = units * times, tonumber(window), tonumber(count)
    local elapsed = math.fmod(now, window)
    index, previous, current, rest = (now - elapsed) / window, 0, 0, ';;;'
    local stored = redis.call('GET', KEYS[1])
    if stored then
      local newest, before, latest, tail = match(stored, '^(%d+) (%d+) (%d+)(;[^;]*;[^;]*;)$')
      newest = tonumber(newest)
      if not newest or newest > index then
        index = nil -- given back, or the clock is late
      elseif newest == index then
        previous, current, rest = tonumber(before), tonumber(latest), tail
      elseif newest == index - 1 then
        previous, rest = tonumber(latest), tail
      else
        rest = tail
      end
    end
    local room = count - current - units
    local weighted, limit = previous * (window - elapsed), room * window
    local larger = math.max(weighted, math.abs(limit))
    -- Above 2^53 the products are rounded, by less than one part in 2^50.
    local sure = larger < 9007199254740992 or math.abs(weighted - limit) > larger / 1125899906842624
    local admitted = room >= 0 and weighted <= limit
    if index and sure and (admitted or times == '1') then
      if admitted then
        redis.call('SET', KEYS[1], format('%.0f %.0f %.0f%s', index, previous, current + units, rest),
          expiry((index + 2) * window))
      end
      return format('%.0f|%s|0 0|%s|%.0f %.0f %.0f', now, admitted and times or '0', match(rest, '^;([^;]*)'), index, previous, current)
    end
  end
end
