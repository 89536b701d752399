// Not published: tests of the JSON Schema of policyfile.
module github.com/seed-30da4c49/sash/httplimit/policyfile/internal/schematest

go 1.25.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/seed-30da4c49/sash v0.1.0
	github.com/stretchr/testify v1.11.1
	go.yaml.in/yaml/v4 v4.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
	github.com/seed-30da4c49/sash/httplimit/policyfile v0.1.0
	golang.org/x/text v0.14.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
