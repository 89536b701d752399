-- The fast path of one call, or of several alike that are all admitted, on a key with one
-- SlidingCounter, where doubles tell. If it cannot tell, it has no effect. See counter.lua
-- for what it does.
--
-- To format a number takes the server longer than to read a short key. So what is stored is
-- used as the text that it is. name is the text of index, if the key was charged in that window.

if now >= 0 and not KEYS[2] and ARGV[3] == '' and ARGV[4] == '' then
  local match, format = string.match, string.format
  local units, times = match(ARGV[2], '^([1-9]%d*)[+^](%d+)$')
  local window, count = match(ARGV[5], '^c (%d+) (%d+);%d*$')
  if units and window then
    units, window, count = units * times, tonumber(window), tonumber(count)
    local elapsed = math.fmod(now, window)
    local index, name, previous, current, rest = (now - elapsed) / window, nil, '0', '0', ';;;'
    local stored = redis.call('GET', KEYS[1])
    if stored then
      local first, before, latest, tail = match(stored, '^(%d+) (%d+) (%d+)(;[^;]*;[^;]*;)$')
      local newest = tonumber(first)
      if not newest or newest > index then
        index = nil -- given back, or the clock is late
      elseif newest == index then
        name, previous, current, rest = first, before, latest, tail
      elseif newest == index - 1 then
        previous, rest = latest, tail
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
      local state = (name or format('%.0f', index)) .. ' ' .. previous .. ' '
      if admitted then
        redis.call('SET', KEYS[1], state .. format('%.0f', current + units) .. rest, expiry((index + 2) * window, name))
      end
      return reading .. '|' .. (admitted and times or '0') .. '|0 0|' .. match(rest, '^;([^;]*)') .. '|' .. state .. current
    end
  end
end
