-- SlidingParts: the text is the newest part that was charged, the units charged in it, and those
-- charged in each part before it, the latest first.
local parts = {}
kinds.p = parts
countTicks(parts)

function parts.load(s, field)
  s.tick, s.newest, s.turned, s.units, s.used, s.ahead = divide(now + s.early, s.a), nil, 0, {}, 0, 0
  for number in gmatch(field, '%S+') do
    if s.newest then
      s.units[#s.units + 1] = tonumber(number)
    else
      s.newest = tonumber(number)
    end
  end
  if not s.newest then
    return
  end
  s.ahead = (s.newest - s.tick) / s.b
  s.tick = math.max(s.tick, s.newest) -- the clock may be late
  s.turned = s.tick - s.newest
  for i = math.min(#s.units, s.b - s.turned), 1, -1 do
    if s.units[i] > 0 then
      s.used, s.lastUnits = s.used + s.units[i], s.newest + 1 - i
    end
  end
end

function parts.charge(s, units)
  if s.turned > 0 then -- later parts have begun: keep what counts
    local kept, later = math.min(#s.units, s.b - s.turned), {}
    for i = 1, kept > 0 and s.turned + kept or 0 do
      later[i] = s.units[i - s.turned] or 0
    end
    s.units, s.turned = later, 0
  end
  units = math.min(s.used + units, LONGEST) - s.used
  s.newest, s.units[1], s.used = s.tick, (s.units[1] or 0) + units, s.used + units
end

function parts.giveBack(s, units, tick)
  local i = s.newest and s.newest + 1 - tick
  if i and s.units[i] and i <= s.b - s.turned then
    s.units[i] = s.units[i] - math.min(units, s.units[i])
  end
end

function parts.save(s)
  local field, some = {}, false
  for i, units in ipairs(s.units) do
    field[i], some = text(units), some or units > 0
  end
  if not some then -- the key forgets the time that it has seen
    return '', 0
  end
  return text(s.newest) .. ' ' .. table.concat(field, ' '), (s.newest + s.b) * s.a - s.early
end

function parts.freedAt(s, units)
  local i = math.min(#s.units, s.b - s.turned) + 1
  while units > 0 do
    i = i - 1
    units = units - s.units[i]
  end
  return s.newest + 1 - i
end
