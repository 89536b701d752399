module github.com/seed-30da4c49/sash

go 1.25.0

require github.com/puzpuzpuz/xsync/v3 v3.5.1

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	golang.org/x/sync v0.20.0 // indirect
)
