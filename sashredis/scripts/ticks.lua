-- What SlidingLog, SlidingBuckets and SlidingParts have in common: a is the length of a tick, b the
-- number of ticks in which a unit counts, c the count, and early how long before a multiple of its
-- length a tick begins. A tick is a microsecond of a log, a bucket or a part. Only parts begin early.
--
-- A kind loads s.tick, the tick of the time; s.used, the units that count; and s.lastUnits, the
-- tick of the newest of them. freedAt(s, units) of it returns the tick of the oldest units that
-- count, that many of them: 0 < units <= s.used.
local function countTicks(kind)
  function kind.fits(s, units) return s.used + units <= s.c end

  function kind.ends(s) return (s.tick + 1) * s.a - s.early end

  -- denied notes when the oldest units go that units, after the charged ones, wait for: the
  -- caller cannot tell from their sum.
  function kind.denied(s, units, charged)
    local missing = s.used + charged + units - s.c
    if units <= s.c and missing > 1 and missing <= s.used and missing ~= s.missing then
      s.missing = missing
      s.freed = (s.freed or '') .. ' ' .. text(missing) .. ' ' .. text(kind.freedAt(s, missing))
    end
  end

  -- answer returns the units that count, the tick of the time, the tick of the newest units, and
  -- for some numbers of units in which tick the last of that many oldest units was charged.
  function kind.answer(s)
    local answer = text(s.used) .. ' ' .. text(s.tick) .. ' '
    if s.used == 0 then
      return answer .. text(s.tick)
    end
    return answer .. text(s.lastUnits) .. ' 1 ' .. text(kind.freedAt(s, 1)) .. (s.freed or '')
  end
end
