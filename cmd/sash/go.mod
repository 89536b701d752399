module github.com/seed-30da4c49/sash/cmd/sash

go 1.25.0

require (
	github.com/dustin/go-humanize v1.1.0
	github.com/klauspost/compress v1.18.0
	github.com/seed-30da4c49/sash v0.1.0
	github.com/seed-30da4c49/sash/httplimit/policyfile v0.1.0
	github.com/stretchr/testify v1.11.1
	github.com/tidwall/gjson v1.18.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
