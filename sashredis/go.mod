module github.com/seed-30da4c49/sash/sashredis

go 1.25.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/puzpuzpuz/xsync/v3 v3.5.1
	github.com/seed-30da4c49/sash v0.1.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/sync v0.20.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
