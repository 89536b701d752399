-- Forgets a key, and returns the time.
--
--   KEYS[1]  the key
--   ARGV[1]  the time, or '' for the server's

redis.call('DEL', KEYS[1])
return text(now)
