-- The fast path of one call, or of several alike that are all admitted, on a key with one
-- SlidingParts. If it cannot tell, it has no effect. See parts.lua for what it does, and
-- fastcounter.lua for why it keeps texts. name is the text of tick, if the key was charged in it.

if now >= 0 and not KEYS[2] and ARGV[3] == '' and ARGV[4] == '' then
  local match, format = string.match, string.format
  local units, times = match(ARGV[2], '^([1-9]%d*)[+^](%d+)$')
  local shift, length, life, count, step = match(ARGV[5], '^(%d+) p (%d+) (%d+) (%d+) (%d+);%d*$')
  if units and length then
    units, length, life, count = units * times, tonumber(length), tonumber(life), tonumber(count)
    local early = shift * step
    local tick = (now + early - math.fmod(now + early, length)) / length
    local used, turned, kept, rest, name, oldest, last = 0, 0, {}, ';;;'
    local stored = redis.call('GET', KEYS[1])
    if stored then
      local first, numbers, tail = match(stored, '^(%d+)([ %d]+)(;[^;]*;[^;]*;)$')
      local newest = tonumber(first)
      turned, rest = newest and tick - newest or -1, tail -- the clock may be late
      name = turned == 0 and first
      for number in string.gmatch(numbers or '', '%d+') do
        if #kept >= life - turned then
          break
        end
        kept[#kept + 1] = number
        if number ~= '0' then
          used, oldest = used + number, newest + 1 - #kept
          last = last or oldest
        end
      end
    end
    local missing = used + units - count
    local admitted = missing <= 0
    -- A denial must tell when that many of the oldest units go, unless no wait is long enough.
    if turned >= 0 and (admitted or times == '1' and (missing == 1 or units > count)) then
      local at = name or format('%.0f', tick)
      local function text(t) return t == tick and at or format('%.0f', t) end
      if admitted then
        if turned == 0 then
          kept[1] = format('%.0f', (kept[1] or 0) + units)
        else
          table.insert(kept, 1, format('%.0f', units) .. string.rep(' 0', kept[1] and turned - 1 or 0))
        end
        redis.call('SET', KEYS[1], at .. ' ' .. table.concat(kept, ' ') .. rest, expiry((tick + life) * length - early, name))
      end
      local state = '0 ' .. at .. ' ' .. at
      if oldest then
        state = format('%.0f ', used) .. at .. ' ' .. text(last) .. ' 1 ' .. text(oldest)
      end
      return reading .. '|' .. (admitted and times or '0') .. '|0 0|' .. match(rest, '^;([^;]*)') .. '|' .. state
    end
  end
end
