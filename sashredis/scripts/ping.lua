-- Returns the time, and reads no key.
--
--   KEYS[1]  any key of the server
--   ARGV[1]  the time, or '' for the server's

return text(now)
