module github.com/seed-30da4c49/sash/internal/rpc

go 1.25.0

require (
	github.com/seed-30da4c49/sash v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	golang.org/x/sync v0.22.0 // indirect
)
