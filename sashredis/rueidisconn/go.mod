module github.com/seed-30da4c49/sash/sashredis/rueidisconn

go 1.25.0

require github.com/redis/rueidis v1.0.79

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/seed-30da4c49/sash v0.1.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
)

require (
	github.com/seed-30da4c49/sash/sashredis v0.1.0
	golang.org/x/sys v0.47.0 // indirect
)
