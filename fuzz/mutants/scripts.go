package main

// ofScripts are the faults of the scripts of package sashredis.
var ofScripts = []mutant{
	// Time.
	{
		name: "redis-second-time-answered", fault: "a script reads the time again for what it answers",
		file: "sashredis/scripts/take.lua", old: "concat({text(now),", new: "concat({text(callers and now or tonumber(redis.call('TIME')[1]) * 1000000 + tonumber(redis.call('TIME')[2])),",
		tests: "TestScripts_ReadTheTimeOnce|TestFleet",
	},
	{
		name: "redis-second-time-expiry", fault: "a script reads the time again for when a key expires",
		file: "sashredis/scripts/time.lua", old: "  return 'PXAT', ", new: "  instant = instant - now + tonumber(redis.call('TIME')[1]) * 1000000\n  return 'PXAT', ",
		tests: "TestScripts_ReadTheTimeOnce|TestScripts_KeysExpire",
	},
	{
		name: "redis-second-time-counter", fault: "a counter reads the time again",
		file: "sashredis/scripts/counter.lua", old: "s.index, s.elapsed = divide(now, s.a)", new: "s.index, s.elapsed = divide(callers and now or tonumber(redis.call('TIME')[1]) * 1000000 + tonumber(redis.call('TIME')[2]), s.a)",
		tests: "TestScripts_ReadTheTimeOnce",
	},
	{
		name: "redis-time-in-seconds", fault: "the microseconds of TIME are dropped",
		file: "sashredis/scripts/time.lua", old: "string.sub('00000' .. time[2], -6)", new: "'000000'",
		tests: "TestScripts_DecideAtTheTimeOfTheServer",
	},
	{
		name: "redis-time-of-the-caller-ignored", fault: "a caller's clock is ignored",
		file: "sashredis/scripts/time.lua", old: "local callers = reading ~= ''", new: "local callers = false",
		tests: "TestAnswers",
	},
	{
		name: "redis-px", fault: "PX in place of PXAT: a key expires after as long as it is old",
		file: "sashredis/scripts/time.lua", old: "return 'PXAT', string.format('%.0f', math.ceil(instant / 1000))", new: "return 'PX', string.format('%.0f', math.ceil((instant - now) / 1000))",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-px-of-an-instant", fault: "PX with the number of PXAT: a key never expires",
		file: "sashredis/scripts/time.lua", old: "return 'PXAT',", new: "return 'PX',",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-expiry-rounded-down", fault: "a key expires up to a millisecond too early",
		file: "sashredis/scripts/time.lua", old: "math.ceil(instant / 1000)", new: "math.floor(instant / 1000)",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-expiry-in-seconds", fault: "a key expires at a whole second",
		file: "sashredis/scripts/time.lua", old: "math.ceil(instant / 1000)", new: "math.floor(instant / 1000000) * 1000",
		tests: "TestScripts_KeysExpire",
	},

	// Integers.
	{
		name: "redis-remainder-operator", fault: "the remainder is computed by %",
		file: "sashredis/scripts/common.lua", old: "local rest = fmod(t, d)", new: "local rest = t % d",
		tests: "TestScripts_UseOnlyWhatIsExact",
	},
	{
		name: "redis-remainder-of-a-rounded-product", fault: "a product is rounded, and % taken of it",
		file: "sashredis/scripts/common.lua", old: "if product < EXACT then\n    local lo = fmod(product, BASE)", new: "if product then\n    local lo = product % BASE",
		tests: "TestAnswers",
	},
	{
		name: "redis-dropped-carry", fault: "the carry of a product is dropped",
		file: "sashredis/scripts/common.lua", old: "return hi + 1, lo - BASE", new: "return hi, lo - BASE",
		tests: "TestAnswers",
	},
	{
		name: "redis-dropped-limb", fault: "the upper half of the middle limbs is dropped",
		file: "sashredis/scripts/common.lua", old: "a1 * b1 + (middle - low) / LIMB", new: "a1 * b1",
		tests: "TestAnswers",
	},
	{
		name: "redis-dropped-carry-of-a-sum", fault: "the carry of a sum is dropped",
		file: "sashredis/scripts/common.lua", old: "return ahi + bhi + 1, lo - BASE", new: "return ahi + bhi, lo - BASE",
		tests: "TestAnswers",
	},
	{
		name: "redis-dropped-borrow", fault: "the borrow of a difference is dropped",
		file: "sashredis/scripts/common.lua", old: "return ahi - bhi - 1, lo + BASE", new: "return ahi - bhi, lo + BASE",
		tests: "TestExact_TheLastUnitThatFits",
	},
	{
		name: "redis-less-or-equal", fault: "of two equal numbers, one is less",
		file: "sashredis/scripts/common.lua", old: "alo < blo end", new: "alo <= blo end",
		tests: "TestAnswers",
	},
	{
		name: "redis-low-limbs-ignored", fault: "numbers are compared by their upper halves",
		file: "sashredis/scripts/common.lua", old: "return ahi < bhi or ahi == bhi and alo < blo end", new: "return ahi < bhi end",
		tests: "TestAnswers",
	},
	{
		name: "redis-exact-beyond-a-double", fault: "products are taken for exact up to 2^54",
		file: "sashredis/scripts/common.lua", old: "local EXACT = 9007199254740992 -- 2^53", new: "local EXACT = 36028797018963968",
		tests: "TestAnswers",
	},
	{
		name: "redis-truncates-below-zero", fault: "instants before 1970 are rounded towards it",
		file: "sashredis/scripts/common.lua", old: "if rest < 0 then", new: "if rest < -d then",
		tests: "TestAnswers",
	},
	{
		name: "redis-numbers-with-exponents", fault: "numbers are written as Lua writes them",
		file: "sashredis/scripts/common.lua", old: "local function text(n) return format('%.0f', n) end", new: "local function text(n) return tostring(n) end",
		tests: "TestAnswers",
	},

	// Counters.
	{
		name: "redis-counter-refuses-the-last", fault: "< for <=: the last unit that fits is denied",
		file: "sashredis/scripts/counter.lua", old: "return not less(roomHi, roomLo, hi, lo)", new: "return less(hi, lo, roomHi, roomLo)",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-no-room-for-the-last", fault: "a counter is never filled",
		file: "sashredis/scripts/counter.lua", old: "if room < 0 then", new: "if room <= 0 then",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-not-rotated", fault: "current does not become previous",
		file: "sashredis/scripts/counter.lua", old: "    s.previous = current\n", new: "    s.previous = previous\n",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-rotates-for-ever", fault: "after a longer idle the last count still weighs",
		file: "sashredis/scripts/counter.lua", old: "elseif index == s.index - 1 then\n    s.previous = current", new: "elseif index < s.index then\n    s.previous = current",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-late-clock", fault: "a late reading finds nothing charged",
		file: "sashredis/scripts/counter.lua", old: "elseif index > s.index then", new: "elseif index > s.index + 1e9 then",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-late-offset", fault: "a late reading keeps its place, in a window that it is not in",
		file: "sashredis/scripts/counter.lua", old: "s.index, s.elapsed, s.previous, s.current = index, 0, previous, current", new: "s.index, s.previous, s.current = index, previous, current",
		tests: "TestAnswers",
	},
	{
		name: "redis-counter-expires-early", fault: "a key expires with the window in which it was charged",
		file: "sashredis/scripts/counter.lua", old: "(s.index + 2) * s.a", new: "(s.index + 1) * s.a",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-counter-gives-back-elsewhere", fault: "units are given back to the window of now",
		file: "sashredis/scripts/counter.lua", old: "if index == s.index then\n    s.current = s.current - math.min", new: "if index <= s.index then\n    s.current = s.current - math.min",
		tests: "TestReserve",
	},
	{
		name: "redis-counter-gives-back-nothing-of-before", fault: "nothing comes back of the window before",
		file: "sashredis/scripts/counter.lua", old: "s.previous = s.previous - math.min(units, s.previous)", new: "s.previous = s.previous - 0 * units",
		tests: "TestReserve",
	},
	{
		name: "redis-counter-refund-moves-the-window", fault: "a refund moves a key to a later window",
		file: "sashredis/scripts/counter.lua", old: "  s.index, s.previous, s.current = unpack(s.stored) -- only", new: "  -- only",
		tests: "TestReserve|TestScripts_ARefundMovesNoWindow",
	},

	// The fast path of a counter.
	{
		name: "redis-fast-counter-refuses-the-last", fault: "< for <= on the fast path",
		file: "sashredis/scripts/fastcounter.lua", old: "weighted <= limit", new: "weighted < limit",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-counter-not-rotated", fault: "current does not become previous on the fast path",
		file: "sashredis/scripts/fastcounter.lua", old: "previous, rest = latest, tail", new: "previous, rest = before, tail",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-counter-denies-all", fault: "the fast path denies all of several calls, although some are admitted",
		file: "sashredis/scripts/fastcounter.lua", old: " and (admitted or times == '1') then", new: " then",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-counter-charges-one", fault: "of several calls, the fast path charges one",
		file: "sashredis/scripts/fastcounter.lua", old: "units * times,", new: "tonumber(units),",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-bucket-denies-all", fault: "the fast path of a bucket denies all of several calls, although some are admitted",
		file: "sashredis/scripts/fastbucket.lua", old: "if admitted or times == '1' then", new: "if true then",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-bucket-charges-one", fault: "of several calls, the fast path of a bucket charges one",
		file: "sashredis/scripts/fastbucket.lua", old: "units * times,", new: "tonumber(units),",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-counter-late-clock", fault: "the fast path decides a late reading",
		file: "sashredis/scripts/fastcounter.lua", old: "if not newest or newest > index then", new: "if not newest then",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-counter-rounds", fault: "the fast path decides where doubles are not exact",
		file: "sashredis/scripts/fastcounter.lua", old: "if index and sure and", new: "if index and",
		tests: "TestExact_TheLastUnitThatFits",
	},
	{
		name: "redis-fast-counter-expires-early", fault: "a key expires a window too early on the fast path",
		file: "sashredis/scripts/fastcounter.lua", old: "expiry((index + 2) * window,", new: "expiry((index + 1) * window,",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-fast-counter-keeps-an-old-expiry", fault: "a key that is charged in a later window expires as if it were not",
		file: "sashredis/scripts/fastcounter.lua", old: "* window, name)", new: "* window, stored)",
		tests: "LaterWindowMovesTheExpiry",
	},
	{
		name: "redis-time-without-zeros", fault: "microseconds of less than six digits are taken for more",
		file: "sashredis/scripts/time.lua", old: "string.sub('00000' .. time[2], -6)", new: "time[2]",
		tests: "TestModel$",
	},
	{
		name: "redis-fast-counter-drops-the-token", fault: "the fast path forgets the token of a reservation",
		file: "sashredis/scripts/fastcounter.lua", old: "name, previous, current, rest = first, before, latest, tail", new: "name, previous, current = first, before, latest",
		tests: "TestReserve",
	},
	{
		name: "redis-fast-counter-remainder", fault: "the window of the fast path is rounded",
		file: "sashredis/scripts/fastcounter.lua", old: "current, rest = (now - elapsed) / window,", new: "current, rest = math.floor(now / window + 0.5),",
		tests: "TestAnswers",
	},

	// Token buckets.
	{
		name: "redis-bucket-refuses-the-last", fault: "a full bucket does not admit its burst",
		file: "sashredis/scripts/bucket.lua", old: "if units > s.c then", new: "if units >= s.c then",
		tests: "TestAnswers",
	},
	{
		name: "redis-bucket-late-clock", fault: "a late reading finds what a timely one would",
		file: "sashredis/scripts/bucket.lua", old: "if now < at and hi + lo > 0 then", new: "if now < at and hi + lo < 0 then",
		tests: "TestAnswers",
	},
	{
		name: "redis-bucket-late-clock-lacks-no-more", fault: "a late reading does not lack more",
		file: "sashredis/scripts/bucket.lua", old: "return add(s.hi, s.lo, s.lateHi, s.lateLo)", new: "return s.hi, s.lo",
		tests: "TestAnswers",
	},
	{
		name: "redis-bucket-lease-flows-back", fault: "what is leased flows back before it is used",
		file: "sashredis/scripts/bucket.lua", old: "if at < ending then", new: "if at < ending and now < at then",
		tests: "TestLease|TestScripts_ABucketLacksWhatIsLeased",
	},
	{
		name: "redis-bucket-flows-too-much", fault: "a bucket flows over",
		file: "sashredis/scripts/bucket.lua", old: "  if less(hi, lo, leastHi, leastLo) then\n    return leastHi, leastLo\n  end\n  return hi, lo\nend\n\nfunction bucket.load", new: "  return hi, lo\nend\n\nfunction bucket.load",
		tests: "TestLease|TestScripts_ABucketLacksWhatIsLeased",
	},
	{
		name: "redis-bucket-lows-not-noted", fault: "a bucket does not note what it lacked when a charge came",
		file: "sashredis/scripts/bucket.lua", old: "  if s.number then\n    note(s)\n  end\n", new: "  if s.number then\n    s.number = s.number + 1\n  end\n",
		tests: "TestReserve",
	},
	{
		name: "redis-bucket-numbers-come-again", fault: "the charges of a key that has expired have numbers that come again",
		file: "sashredis/scripts/bucket.lua", old: "s.number = math.max(s.number or now, now)", new: "s.number = s.number or 0",
		tests: "TestReserve",
	},
	{
		name: "redis-bucket-gives-back-all", fault: "more is given back than the bucket lacked since",
		file: "sashredis/scripts/bucket.lua", old: "if least and less(least.hi, least.lo, hi, lo) then", new: "if least and less(least.hi + BASE, least.lo, hi, lo) then",
		tests: "TestReserve",
	},
	{
		name: "redis-bucket-gives-back-twice", fault: "a second refund does not know of the first",
		file: "sashredis/scripts/bucket.lua", old: "low.hi, low.lo = sub(low.hi, low.lo, hi, lo)", new: "low.hi, low.lo = sub(low.hi, low.lo, 0, 0)",
		tests: "TestReserve|TestScripts_TwoRefunds",
	},
	{
		name: "redis-bucket-low-of-the-first-charge", fault: "the first reservation is noted as a charge after others",
		file: "sashredis/scripts/bucket.lua", old: "s.first = not s.number", new: "s.first = false",
		tests: "TestScripts_ABucketWithManyCharges",
	},
	{
		name: "redis-bucket-low-of-the-charge-itself", fault: "a refund is bounded by what the bucket lacked before the charge",
		file: "sashredis/scripts/bucket.lua", old: "s.lows[later].number <= number do", new: "s.lows[later].number < number do",
		tests: "TestReserve",
	},
	{
		name: "redis-bucket-thinned-the-wrong-way", fault: "of two charges that a bucket no longer tells apart, the later decides",
		file: "sashredis/scripts/bucket.lua", old: "{number = lows[i + 1].number, hi = lows[i].hi, lo = lows[i].lo}", new: "{number = lows[i].number, hi = lows[i + 1].hi, lo = lows[i + 1].lo}",
		tests: "TestScripts_ABucketWithManyCharges",
	},
	{
		name: "redis-bucket-lows-without-bound", fault: "a bucket notes every charge",
		file: "sashredis/scripts/bucket.lua", old: "if #lows > 64 then", new: "if #lows > 6400000 then",
		tests: "TestScripts_ABucketWithManyCharges",
	},
	{
		name: "redis-bucket-refund-of-a-lapsed-lease", fault: "a lease that has lapsed is given back",
		file: "sashredis/scripts/bucket.lua", old: "if now < s.key.leaseEnd and s.key.leaseEnd == s.key.settledEnd then", new: "if s.key.leaseEnd == s.key.settledEnd then",
		tests: "TestScripts_ALeaseIsGivenBackWhileItRuns",
	},
	{
		name: "redis-bucket-refund-of-another-lease", fault: "an earlier lease is given back to a later one",
		file: "sashredis/scripts/bucket.lua", old: "if now < s.key.leaseEnd and s.key.leaseEnd == s.key.settledEnd then", new: "if now < s.key.leaseEnd then",
		tests: "TestScripts_ALeaseIsGivenBackWhileItRuns",
	},
	{
		name: "redis-bucket-leases-all", fault: "all of a bucket is leased, which does not flow back then",
		file: "sashredis/scripts/bucket.lua", old: "return 2 * units <= s.c end", new: "return units <= s.c end",
		tests: "TestScripts_ABucketLeasesHalf",
	},
	{
		name: "redis-bucket-expires-early", fault: "a key expires before its bucket is full",
		file: "sashredis/scripts/bucket.lua", old: "(s.hi * BASE + s.lo) / s.b *", new: "(s.hi * BASE + s.lo) / s.b / 2 *",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-bucket-expires-before-its-lease", fault: "a key expires before a lease of it ends",
		file: "sashredis/scripts/bucket.lua", old: "math.max(s.at, s.key.leaseEnd) + math.min", new: "s.at + math.min",
		tests: "TestScripts_KeysExpire",
	},

	// The fast path of a token bucket.
	{
		name: "redis-fast-bucket-refuses-the-last", fault: "< for <= on the fast path of a bucket",
		file: "sashredis/scripts/fastbucket.lua", old: "lack <= (burst - units) * window", new: "lack < (burst - units) * window",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-bucket-flows-over", fault: "the fast path lets a bucket flow over",
		file: "sashredis/scripts/fastbucket.lua", old: "lack = math.max(lack - flowed, 0)", new: "lack = lack - flowed",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-bucket-late-clock", fault: "the fast path decides a late reading of a bucket",
		file: "sashredis/scripts/fastbucket.lua", old: "at and at <= now and (now - at) * count", new: "at and math.max(now - at, 0) * count",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-bucket-rounds", fault: "the fast path of a bucket decides where doubles are not exact",
		file: "sashredis/scripts/fastbucket.lua", old: "if flowed and flowed < 9007199254740992 and burst * window < 4503599627370496 then", new: "if flowed then",
		tests: "TestExact_TheLastUnitThatFits",
	},
	{
		name: "redis-fast-bucket-ignores-leases", fault: "the fast path forgets leases and reservations of a bucket",
		file: "sashredis/scripts/fastbucket.lua", old: "'^(%d+) 0 (%d+);;;$'", new: "'^(%d+) 0 (%d+)'",
		tests: "TestReserve|TestLease|TestScripts",
	},
	{
		name: "redis-fast-bucket-expires-early", fault: "a key expires before its bucket is full on the fast path",
		file: "sashredis/scripts/fastbucket.lua", old: "expiry(now + charged / count *", new: "expiry(now + charged / count / 2 *",
		tests: "TestScripts_KeysExpire",
	},

	// The fast path of parts.
	{
		name: "redis-fast-parts-admits-one-more", fault: "the fast path of parts admits a unit too many",
		file: "sashredis/scripts/fastparts.lua", old: "local admitted = missing <= 0", new: "local admitted = missing <= 1",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-denies-all", fault: "the fast path of parts denies all of several calls, although some are admitted",
		file: "sashredis/scripts/fastparts.lua", old: "(admitted or times == '1' and (missing == 1 or units > count))", new: "true",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-parts-charges-one", fault: "of several calls, the fast path of parts charges one",
		file: "sashredis/scripts/fastparts.lua", old: "units * times,", new: "tonumber(units),",
		tests: "TestTake_CallsForAKey",
	},
	{
		name: "redis-fast-parts-tells-no-wait", fault: "the fast path of parts denies where the caller cannot tell the wait",
		file: "sashredis/scripts/fastparts.lua", old: "and (missing == 1 or units > count))", new: ")",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-late-clock", fault: "the fast path of parts decides a late reading",
		file: "sashredis/scripts/fastparts.lua", old: "newest and tick - newest or -1", new: "newest and math.max(tick - newest, 0) or -1",
		tests: "TestMaxAhead_AKeyBeginsAnew",
	},
	{
		name: "redis-fast-parts-not-shifted", fault: "the fast path begins the parts of all keys at one instant",
		file: "sashredis/scripts/fastparts.lua", old: "local early = shift * step", new: "local early = 0 * shift * step",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-not-turned", fault: "on the fast path, the parts in between are left out",
		file: "sashredis/scripts/fastparts.lua", old: "kept[1] and turned - 1 or 0", new: "0",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-back-late", fault: "on the fast path, a unit counts for a part too long",
		file: "sashredis/scripts/fastparts.lua", old: "#kept >= life - turned", new: "#kept > life - turned",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-expires-early", fault: "a key expires a part too early on the fast path",
		file: "sashredis/scripts/fastparts.lua", old: "expiry((tick + life) * length - early,", new: "expiry((tick + life - 1) * length - early,",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-fast-parts-keeps-an-old-expiry", fault: "a key that is charged in a later part expires as if it were not",
		file: "sashredis/scripts/fastparts.lua", old: "length - early, name)", new: "length - early, stored)",
		tests: "LaterWindowMovesTheExpiry",
	},
	{
		name: "redis-fast-parts-text-of-another-part", fault: "the fast path of parts tells that the oldest units are as new as the call",
		file: "sashredis/scripts/fastparts.lua", old: "return t == tick and at or", new: "return at or",
		tests: "TestAnswers",
	},
	{
		name: "redis-fast-parts-drops-the-token", fault: "the fast path of parts forgets the token of a reservation",
		file: "sashredis/scripts/fastparts.lua", old: "' ') .. rest, expiry", new: "' ') .. ';;;', expiry",
		tests: "TestReserve",
	},

	// Logs, buckets and parts.
	{
		name: "redis-ring-refuses-the-last", fault: "a log is never filled",
		file: "sashredis/scripts/ticks.lua", old: "return s.used + units <= s.c end", new: "return s.used + units < s.c end",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-back-late", fault: "a unit counts for a tick too long",
		file: "sashredis/scripts/ring.lua", old: "digits(s.tick - s.b + 1)\n", new: "digits(s.tick - s.b)\n",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-late-clock", fault: "a late reading is charged before the newest units",
		file: "sashredis/scripts/ring.lua", old: "s.tick = math.max(s.tick, s.newest)", new: "s.tick = math.max(s.tick, -BASE)",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-wrong-base", fault: "the base is the oldest member that does not count",
		file: "sashredis/scripts/ring.lua", old: "local before = redis.call('ZREVRANGEBYLEX', key, '(' .. string.sub(s.first, 2), '[' .. s.letter, 'LIMIT', 0, 1)[1]\n  if before then\n    s.before", new: "local before = redis.call('ZRANGEBYLEX', key, '[' .. s.letter, '(' .. string.sub(s.first, 2), 'LIMIT', 0, 1)[1]\n  if before then\n    s.before",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-not-pruned", fault: "members that do not count stay",
		file: "sashredis/scripts/ring.lua", old: "redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, '(' .. s.before)", new: "",
		tests: "TestScripts_ALogKeepsOnlyWhatCounts",
	},
	{
		name: "redis-ring-base-pruned", fault: "the newest member that does not count is removed, too",
		file: "sashredis/scripts/ring.lua", old: "'[' .. s.letter, '(' .. s.before)", new: "'[' .. s.letter, '[' .. s.before)",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-base-grows", fault: "the base is replaced when it is also the newest member",
		file: "sashredis/scripts/ring.lua", old: "    last = nil -- it does not count\n", new: "",
		tests: "TestScripts_TheNewest",
	},
	{
		name: "redis-ring-member-for-each-charge", fault: "units of one tick take a member each",
		file: "sashredis/scripts/ring.lua", old: "(empty or s.newest == s.tick)", new: "empty",
		tests: "TestAnswers|TestReserve|TestScripts",
	},
	{
		name: "redis-ring-other-limits-pruned", fault: "a limit prunes the members of those before it",
		file: "sashredis/scripts/ring.lua", old: "redis.call('ZREMRANGEBYLEX', key, '[' .. s.letter, '(' .. s.before)", new: "redis.call('ZREMRANGEBYLEX', key, '[0', '(' .. s.before)",
		tests: "TestAnswers",
	},
	{
		name: "redis-ring-total-not-modulo", fault: "totals grow past the digits that they are written with",
		file: "sashredis/scripts/ring.lua", old: "  if total >= BASE then\n    total = total - BASE\n  end\n", new: "",
		tests: "TestScripts_TotalsOfALogComeAround",
	},
	{
		name: "redis-ring-between-not-modulo", fault: "units between two totals are less than none once totals come around",
		file: "sashredis/scripts/ring.lua", old: "    return units + BASE\n", new: "    return 0\n",
		tests: "TestScripts_TotalsOfALogComeAround",
	},
	{
		name: "redis-ring-expires-early", fault: "a log expires a tick too early",
		file: "sashredis/scripts/ring.lua", old: "(s.tick + s.b) * s.a end", new: "(s.tick + s.b - 1) * s.a end",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-parts-not-shifted", fault: "the parts of all keys begin at one instant in the store",
		file: "sashredis/scripts/parts.lua", old: "divide(now + s.early, s.a)", new: "divide(now, s.a)",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-shifted-as-a-whole", fault: "parts begin early by the number of steps, and not by their length",
		file: "sashredis/scripts/key.lua", old: "step * string.match(limits, '^%d+')", new: "tonumber(string.match(limits, '^%d+'))",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-back-late", fault: "a unit counts for a part too long",
		file: "sashredis/scripts/parts.lua", old: "for i = math.min(#s.units, s.b - s.turned), 1, -1 do", new: "for i = math.min(#s.units, s.b - s.turned + 1), 1, -1 do",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-late-clock", fault: "a late reading is charged before the newest units",
		file: "sashredis/scripts/parts.lua", old: "s.tick = math.max(s.tick, s.newest)", new: "s.tick = math.max(s.tick, -BASE)",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-not-turned", fault: "the units of earlier parts become units of a later one",
		file: "sashredis/scripts/parts.lua", old: "later[i] = s.units[i - s.turned] or 0", new: "later[i] = s.units[i] or 0",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-not-pruned", fault: "the text of a key in parts grows by the parts in which it was not charged",
		file: "sashredis/scripts/parts.lua", old: "local kept, later = math.min(#s.units, s.b - s.turned), {}", new: "local kept, later = #s.units, {}",
		tests: "TestScripts_PartsKeepOnlyWhatCounts",
	},
	{
		name: "redis-parts-refund-elsewhere", fault: "units are given back to the part of now",
		file: "sashredis/scripts/parts.lua", old: "s.newest and s.newest + 1 - tick", new: "s.newest and 1",
		tests: "TestReserve",
	},
	{
		name: "redis-parts-frees-too-early", fault: "the wait for the oldest units is that for one less",
		file: "sashredis/scripts/parts.lua", old: "while units > 0 do", new: "while units > 1 do",
		tests: "TestAnswers",
	},
	{
		name: "redis-parts-expire-late", fault: "a key in parts expires as if its parts did not begin early",
		file: "sashredis/scripts/parts.lua", old: "(s.newest + s.b) * s.a - s.early\n", new: "(s.newest + s.b) * s.a\n",
		tests: "TestScripts_KeysExpire",
	},
	{
		name: "redis-log-two-oldest-are-one", fault: "the two oldest units of a log are taken to be of one tick",
		file: "sashredis/scripts/ring.lua", old: "if units == 1 or counting", new: "if units <= 2 or counting",
		tests: "TestAnswers|TestModel$",
	},
	{
		name: "redis-ring-frees-too-early", fault: "the wait for the oldest units is that for one less",
		file: "sashredis/scripts/ring.lua", old: "if counting(s, reached, t) >= units then", new: "if counting(s, reached, t) >= units - 1 then",
		tests: "TestScripts_GivingBackToALog",
	},
	{
		name: "redis-ring-refund-of-the-past", fault: "units that no longer count are given back",
		file: "sashredis/scripts/ring.lua", old: "if not s.newest or tick <= s.tick - s.b then", new: "if not s.newest then",
		tests: "TestReserve",
	},
	{
		name: "redis-ring-refund-of-all-powers", fault: "the units given back lack their greatest power of two",
		file: "sashredis/scripts/ring.lua", old: "s.powers = nil, 0, 0, 0, 0, powers(s)", new: "s.powers = nil, 0, 0, 0, 0, math.max(powers(s) - 1, 0)",
		tests: "TestReserve",
	},
	{
		name: "redis-ring-refund-before-the-window", fault: "units given back of ticks that no longer count are taken from those that do",
		file: "sashredis/scripts/ring.lua", old: "givenBack(s, s.tick - s.b + 1, tick))", new: "givenBack(s, -BASE, tick))",
		tests: "TestReserve",
	},
	{
		name: "redis-ring-refund-twice", fault: "a second refund of a tick replaces the first",
		file: "sashredis/scripts/ring.lua", old: "setGivenBack(s, tick, before, fmod(before + units, BASE))", new: "setGivenBack(s, tick, before, units)",
		tests: "TestReserve|TestScripts_GivingBack",
	},
	{
		name: "redis-ring-refund-without-the-next", fault: "a tick whose units were all given back leaves them to the next as charged",
		file: "sashredis/scripts/ring.lua", old: "setGivenBack(s, following, back, fmod(back + charged, BASE))", new: "setGivenBack(s, following, back, back)",
		tests: "TestScripts_GivingBack",
	},
	{
		name: "redis-ring-refund-of-the-newest-lost", fault: "what was given back of the newest tick counts again with the next charge",
		file: "sashredis/scripts/ring.lua", old: "s.total = between(s.total, s.newestBack)", new: "_ = s",
		tests: "TestScripts_GivingBack",
	},
	{
		name: "redis-ring-refunds-not-pruned", fault: "what was given back of ticks that do not count stays",
		file: "sashredis/scripts/ring.lua", old: "redis.call('ZREMRANGEBYLEX', key, '[' .. back(s, power), ", new: "local _ = (",
		tests: "TestScripts_GivingBack",
	},
	{
		name: "redis-ring-refund-not-modulo", fault: "units given back grow past the powers of two that there are",
		file: "sashredis/scripts/ring.lua", old: "fmod(back + charged, BASE)", new: "back + charged",
		tests: "GivenBackOfManyTicks",
	},
	{
		name: "redis-ring-refund-of-each-member", fault: "a refund looks at all later members",
		file: "sashredis/scripts/ring.lua", old: "  local previous, base = earlier(", new: "  for _, m in ipairs(redis.call('ZRANGEBYLEX', key, '[' .. s.letter .. digits(tick), limit)) do\n    redis.call('ZSCORE', key, m)\n  end\n  local previous, base = earlier(",
		tests: "TestScripts_GivingBack",
	},

	// Keys.
	{
		name: "redis-foreign-value", fault: "a value of other fields is taken for a key",
		file: "sashredis/scripts/key.lua", old: "    if #fields ~= #key + 2 then\n      return nil\n    end\n", new: "",
		tests: "TestScripts_RefuseWhatIsNotTheirs",
	},
	{
		name: "redis-lease-forgotten", fault: "a key does not keep its lease",
		file: "sashredis/scripts/key.lua", old: "if key.leased > 0 then\n    fields", new: "if key.leased < 0 then\n    fields",
		tests: "TestLease|TestScripts",
	},
	{
		name: "redis-head-stays", fault: "a sorted set keeps its earlier states",
		file: "sashredis/scripts/key.lua", old: "redis.call('ZREM', key.name, key.head)", new: "",
		tests: "TestAnswers|TestReserve|TestScripts",
	},
	{
		name: "redis-empty-key-stays", fault: "a key whose units were all given back stays as it was",
		file: "sashredis/scripts/key.lua", old: "redis.call('DEL', key.name)", new: "",
		tests: "TestReserve|TestScripts",
	},
	{
		name: "redis-sorted-set-never-expires", fault: "a key with a log never expires",
		file: "sashredis/scripts/key.lua", old: "redis.call(option == 'PX' and 'PEXPIRE' or 'PEXPIREAT', key.name, time)", new: "",
		tests: "TestScripts_KeysExpire",
	},

	// Keys that are ahead of the time.
	{
		name: "redis-ahead-for-ever", fault: "a key that is ahead by more than the bound waits for the clock",
		file: "sashredis/scripts/key.lua", old: "most and s.ahead > most", new: "most and s.ahead > 1e9",
		tests: "TestMaxAhead",
	},
	{
		name: "redis-ahead-by-the-bound", fault: "a key that is ahead by just the bound begins anew",
		file: "sashredis/scripts/key.lua", old: "most and s.ahead > most", new: "most and s.ahead >= most",
		tests: "TestMaxAhead",
	},
	{
		name: "redis-ahead-by-the-last-limit", fault: "only the last limit tells whether a key is ahead",
		file: "sashredis/scripts/key.lua", old: "key.anew = key.anew or most and s.ahead > most", new: "key.anew = most and s.ahead > most",
		tests: "TestMaxAhead",
	},
	{
		name: "redis-ahead-members-stay", fault: "a log that begins anew keeps members that are ahead",
		file: "sashredis/scripts/ring.lua", old: "    redis.call('ZREMRANGEBYLEX', key, '(' .. newest, '(' .. s.letter .. '~~')\n", new: "",
		tests: "TestMaxAhead",
	},
	// Deciding.
	{
		name: "redis-limits-one-suffices", fault: "a call is admitted if the last limit admits it",
		file: "sashredis/scripts/take.lua", old: "    if not s.kind.fits(s, units + s.key.leave) then\n      return false\n    end\n  end\n  return true\nend\n\n-- admitted", new: "    if s == states[#states] and not s.kind.fits(s, units + s.key.leave) then\n      return false\n    end\n  end\n  return true\nend\n\n-- admitted",
		tests: "TestAnswers",
	},
	{
		name: "redis-limits-of-the-first-key", fault: "each key is under the limits of the first",
		file: "sashredis/scripts/take.lua", old: "open(name, ARGV[4 + i])", new: "open(name, ARGV[5])",
		tests: "TestScripts_EachKeyHasItsLimits",
	},
	{
		name: "redis-keys-charged-in-part", fault: "only the first key of a call is charged",
		file: "sashredis/scripts/take.lua", old: "  if charged + leased > 0 then\n    if k.token", new: "  if charged + leased > 0 and i == 1 then\n    if k.token",
		tests: "TestAnswers",
	},
	{
		name: "redis-combined-one-too-many", fault: "of calls in one round trip, one too many is admitted",
		file: "sashredis/scripts/take.lua", old: "      high = middle\n    end\n  end\n  return low", new: "      high = middle\n    end\n  end\n  return high",
		tests: "TestTake|TestFleet",
	},
	{
		name: "redis-combined-each-alone", fault: "calls in one round trip do not count one another",
		file: "sashredis/scripts/take.lua", old: "count = admitted(units, times, charged)", new: "count = admitted(units, times, 0)",
		tests: "TestTake|TestFleet",
	},
	{
		name: "redis-combined-none-of-some", fault: "of equal calls in one round trip, all or none are admitted",
		file: "sashredis/scripts/take.lua", old: "if times == 1 or not fits(charged + units) then", new: "if true then",
		tests: "TestTake|TestFleet",
	},
	{
		name: "redis-peek-charges", fault: "a Peek is charged",
		file: "sashredis/scripts/take.lua", old: "if operation ~= '?' and units > 0 then", new: "if units > 0 then",
		tests: "TestAnswers",
	},
	{
		name: "redis-denied-writes", fault: "a call that is denied writes the key",
		file: "sashredis/scripts/take.lua", old: "  if charged + leased > 0 then\n    if k.token", new: "  if charged + leased >= 0 then\n    if k.token",
		tests: "TestScripts_ADenialWritesNothing",
	},
	{
		name: "redis-answer-after-the-charge", fault: "the state that is answered is that after the charge",
		file: "sashredis/scripts/take.lua", old: "for _, s in ipairs(states) do\n  answers[#answers + 1] = s.kind.answer(s)\nend\n", new: "for _, s in ipairs(states) do\n  s.kind.charge(s, charged)\n  answers[#answers + 1] = s.kind.answer(s)\nend\n",
		tests: "TestAnswers",
	},
	{
		name: "redis-token-replaced", fault: "each reservation replaces the token of a key",
		file: "sashredis/scripts/take.lua", old: "if k.token == '' then", new: "if ARGV[3] ~= '' then",
		tests: "TestReserve",
	},
	{
		name: "redis-lease-uncharged", fault: "what is leased is not charged",
		file: "sashredis/scripts/take.lua", old: "s.kind.charge(s, charged + leased)", new: "s.kind.charge(s, charged)",
		tests: "TestLease",
	},
	{
		name: "redis-lease-leaves-nothing", fault: "a lease takes all that is left",
		file: "sashredis/scripts/take.lua", old: "return fits(charged + 2 * lessees * units)", new: "return fits(charged + units)",
		tests: "TestLease|TestScripts_ALease",
	},
	{
		name: "redis-lease-for-one", fault: "a lease does not count the processes",
		file: "sashredis/scripts/take.lua", old: "    lessees = lessees + 1\n", new: "    lessees = 1\n",
		tests: "TestLease|TestScripts_ALease",
	},
	{
		name: "redis-lease-of-none", fault: "a lease that would end with one that was given back leaves the others nothing",
		file: "sashredis/scripts/take.lua", old: "ending, before, lessees, last = now + tonumber(length), 0, 0, '-1'", new: "ending, before, lessees = now + tonumber(length), 0, 0",
		tests: "TestScripts_ALeaseAfterOneThatWasGivenBack|TestLeases",
	},
	{
		name: "redis-lease-forgets-the-others", fault: "a lease replaces the leases of other processes",
		file: "sashredis/scripts/take.lua", old: "key.leased, key.lessees = ending, before + leased, lessees", new: "key.leased, key.lessees = ending, leased, lessees",
		tests: "TestLease|TestScripts",
	},
	{
		name: "redis-lease-never-ends", fault: "a lease begins where the last one has ended",
		file: "sashredis/scripts/take.lua", old: "if now >= ending then", new: "if ending < 0 then",
		tests: "TestLease|TestScripts",
	},

	// Settling.
	{
		name: "redis-settle-any-token", fault: "units are given back to a key that was reset since",
		file: "sashredis/scripts/settle.lua", old: "local known = key.token == ARGV[5]", new: "local known = key.token ~= ''",
		tests: "TestReserve|TestReset",
	},
	{
		name: "redis-settle-lease-twice", fault: "what is given back of a lease counts as leased",
		file: "sashredis/scripts/settle.lua", old: "key.leased = math.max(key.leased - left, 0)", new: "key.leased = key.leased - 0",
		tests: "TestLease|TestScripts",
	},
	{
		name: "redis-settle-another-lease", fault: "units of an earlier lease are taken for units of a later",
		file: "sashredis/scripts/settle.lua", old: "if key.settledEnd == key.leaseEnd then", new: "if key.settledEnd then",
		tests: "TestLease|TestScripts",
	},
	{
		name: "redis-settle-first-limit", fault: "units are given back under the first limit only",
		file: "sashredis/scripts/settle.lua", old: "s.kind.giveBack(s, units", new: "key[1].kind.giveBack(key[1], units",
		tests: "TestReserve",
	},
	{
		name: "redis-settle-spends-nothing", fault: "what was spent past the estimate is not charged",
		file: "sashredis/scripts/settle.lua", old: "    s.kind.charge(s, -units)\n", new: "",
		tests: "TestReserve",
	},
	{
		name: "redis-reset-of-nothing", fault: "Reset forgets nothing",
		file: "sashredis/scripts/reset.lua", old: "redis.call('DEL', KEYS[1])", new: "",
		tests: "TestReset|TestReserve",
	},

	// Units that must be left, and what there is.
	{
		name: "redis-script-charges-what-is-left", fault: "what a call leaves counts as charged for the calls after it",
		file: "sashredis/scripts/take.lua", old: "charged = charged + units * count", new: "charged = charged + (units + leave) * count",
		tests: "TestTakeLeaving|TestAnswers",
	},
	{
		name: "redis-script-peeks-without-leave", fault: "a call for no units need not leave any",
		file: "sashredis/scripts/take.lua", old: "count = fits(charged + units) and times or 0", new: "keys[1].leave = 0\n    count = fits(charged + units) and times or 0",
		tests: "TestTake_CallsOfARoundTripAreDecidedInOrder|TestAnswers",
	},
	{
		name: "redis-script-leaves-of-the-first-key", fault: "each of several keys is left as much as the first",
		file: "sashredis/scripts/take.lua", old: "units + s.key.leave) then", new: "units + keys[1].leave) then",
		tests: "TestEach|TestFleet",
	},
	{
		name: "redis-script-leaves-as-the-call-before", fault: "a call is to leave as much as the call before it in its round trip",
		file: "sashredis/scripts/take.lua", old: "    key.leave = 0\n", new: "    key.leave = key.leave or 0\n",
		tests: "TestTake_CallsOfARoundTripAreDecidedInOrder|TestModel$",
	},
	{
		name: "redis-script-lease-leaves", fault: "a lease leaves as much as the last call that it is for",
		file: "sashredis/scripts/take.lua", old: "  key.leave = 0\n  if now >= ending", new: "  if now >= ending",
		tests: "TestLease_LeavesNoMoreForACall",
	},
	{
		name: "redis-script-waits-for-its-own-units", fault: "a denial tells when n units are there, not those to be left, too",
		file: "sashredis/scripts/take.lua", old: "s.kind.denied(s, units + s.key.leave, charged)", new: "s.kind.denied(s, units, charged)",
		tests: "TestTakeLeaving|TestAnswers",
	},
	{
		name: "redis-script-takes-one-less", fault: "of calls for one unit after the other, the last that fits is denied",
		file: "sashredis/scripts/take.lua", old: "while high - low > 1 do\n    local middle", new: "while high - low > 2 do\n    local middle",
		tests: "TestTakeUpTo|TestAnswers",
	},
}
