-- SlidingCounter: a is the window, b the count. The text is the number of the newest window
-- that was charged, and the units of the window before and of it.
local counter = {}
kinds.c = counter

function counter.load(s, field)
  local index, previous, current = string.match(field, '^(%S+) (%S+) (%S+)$')
  s.index, s.elapsed = divide(now, s.a)
  s.previous, s.current, s.stored, s.ahead = 0, 0, nil, 0
  if not index then
    return
  end
  index, previous, current = tonumber(index), tonumber(previous), tonumber(current)
  s.stored = {index, previous, current}
  if index == s.index then
    s.previous, s.current = previous, current
  elseif index == s.index - 1 then
    s.previous = current
  elseif index > s.index then -- the clock is late: it is as if the stored window began now
    s.ahead = index - s.index
    s.index, s.elapsed, s.previous, s.current = index, 0, previous, current
  end
end

function counter.fits(s, units)
  local room = s.b - s.current - units
  if room < 0 then
    return false
  elseif s.previous == 0 then
    return true
  end
  -- previous*(window-elapsed) <= room*window
  local hi, lo = mul(s.previous, s.a - s.elapsed)
  local roomHi, roomLo = mul(room, s.a)
  return not less(roomHi, roomLo, hi, lo)
end

function counter.charge(s, units) s.current = math.min(s.current + units, LONGEST) end

function counter.giveBack(s, units, index)
  if not s.stored then
    return
  end
  s.index, s.previous, s.current = unpack(s.stored) -- only a charge moves it to a later window
  if index == s.index then
    s.current = s.current - math.min(units, s.current)
  elseif index == s.index - 1 then
    s.previous = s.previous - math.min(units, s.previous)
  end
end

function counter.save(s)
  if s.previous + s.current == 0 then
    return '', 0
  end
  return text(s.index) .. ' ' .. text(s.previous) .. ' ' .. text(s.current), (s.index + 2) * s.a
end

function counter.ends(s) return (s.index + 1) * s.a end

function counter.answer(s) return text(s.index) .. ' ' .. text(s.previous) .. ' ' .. text(s.current) end
