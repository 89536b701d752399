module github.com/seed-30da4c49/sash/sashredis

go 1.25.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/puzpuzpuz/xsync/v3 v3.5.1
	github.com/seed-30da4c49/sash v0.0.0
	golang.org/x/sync v0.20.0
)

replace github.com/seed-30da4c49/sash => ../
