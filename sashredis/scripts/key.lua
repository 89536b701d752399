-- open returns the key of that name with its states under limits, such as
-- 'c WINDOW COUNT;t WINDOW COUNT BURST;r LENGTH LIFE COUNT;h LENGTH LIFE COUNT;'. A number may
-- follow. A key whose state under one of them is ahead of the time by more windows than that begins
-- anew. In front of limits such as 'p LENGTH LIFE COUNT STEP;' is another number, the shift of the
-- key: their ticks begin that many steps earlier.
--
-- What a key holds but for the members of rings is one text: the state under each limit, the
-- token of its first reservation, and its lease. Each ends with a semicolon. The text is the
-- value of a string or, if there are rings, the first member of a sorted set.
local function open(name, limits)
  local key = {name = name, token = '', leaseEnd = -BASE, leased = 0, lessees = 0}
  for kind, a, b, c, step in gmatch(limits, '(%a) (%d+) (%d+) ?(%d*) ?(%d*);') do
    local s = {kind = kinds[kind], key = key, a = tonumber(a), b = tonumber(b), c = tonumber(c), held = kind == 'h'}
    s.early = step ~= '' and step * string.match(limits, '^%d+') or 0
    if s.kind.sorted then
      key.sorted, s.letter = true, string.char(48 + #key)
    end
    key[#key + 1] = s
  end
  local stored
  if key.sorted then
    stored = redis.call('ZRANGEBYLEX', name, '[!', '("', 'LIMIT', 0, 1)[1]
    key.head = stored
    stored = stored and string.sub(stored, 2)
  else
    stored = redis.call('GET', name)
  end
  local fields = {}
  if stored then
    for field in gmatch(stored, '([^;]*);') do
      fields[#fields + 1] = field
    end
    if #fields ~= #key + 2 then
      return nil
    end
    key.token = fields[#key + 1]
    local ending, leased, lessees = string.match(fields[#key + 2], '^(%S+) (%S+) (%S+)$')
    if ending then
      key.leaseEnd, key.leased, key.lessees = tonumber(ending), tonumber(leased), tonumber(lessees)
    end
  end
  local most = tonumber(string.match(limits, '%d*$'))
  for i, s in ipairs(key) do
    s.kind.load(s, fields[i] or '')
    key.anew = key.anew or most and s.ahead > most
  end
  if key.anew then
    key.token, key.leaseEnd, key.leased, key.lessees = '', -BASE, 0, 0
    for _, s in ipairs(key) do
      s.kind.load(s, '')
    end
  end
  return key
end

-- close writes key after a charge or what was given back, and sets when it expires.
local function close(key)
  local fields, expires, used = {}, now, key.leased > 0 -- no lease outlives what counts
  for i, s in ipairs(key) do
    local field, idle = s.kind.save(s)
    fields[i] = field .. ';'
    expires = math.max(expires, idle)
    used = used or field ~= ''
  end
  fields[#key + 1] = key.token .. ';'
  fields[#key + 2] = ';'
  if key.leased > 0 then
    fields[#key + 2] = text(key.leaseEnd) .. ' ' .. text(key.leased) .. ' ' .. text(key.lessees) .. ';'
  end
  local stored = table.concat(fields)
  local option, time = expiry(expires)
  if key.sorted then
    local head = (used or key.token ~= '') and '!' .. stored or nil
    if head and key.head ~= head then
      redis.call('ZADD', key.name, 0, head)
    end
    if key.head and key.head ~= head then
      redis.call('ZREM', key.name, key.head)
    end
    redis.call(option == 'PX' and 'PEXPIRE' or 'PEXPIREAT', key.name, time)
  elseif used then
    redis.call('SET', key.name, stored, option, time)
  else -- all was given back
    redis.call('DEL', key.name)
  end
end
