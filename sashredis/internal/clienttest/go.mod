// Not published: tests of sashredis with clients, servers and an embedded store.
module github.com/seed-30da4c49/sash/sashredis/internal/clienttest

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/redis/go-redis/v9 v9.22.0
	github.com/redis/rueidis v1.0.79
	github.com/seed-30da4c49/sash v0.1.0
	github.com/stretchr/testify v1.11.1
	github.com/yuin/gopher-lua v1.1.1
)

require (
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	golang.org/x/sync v0.20.0 // indirect
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/seed-30da4c49/sash/sashredis v0.1.0
	github.com/seed-30da4c49/sash/sashredis/goredisconn v0.1.0
	github.com/seed-30da4c49/sash/sashredis/rueidisconn v0.1.0
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
