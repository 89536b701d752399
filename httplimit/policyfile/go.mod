module github.com/seed-30da4c49/sash/httplimit/policyfile

go 1.25.0

require (
	github.com/seed-30da4c49/sash v0.1.0
	github.com/stretchr/testify v1.11.1
	go.yaml.in/yaml/v4 v4.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
