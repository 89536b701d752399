// Not published: it releases the modules.
module github.com/seed-30da4c49/sash/internal/release

go 1.25.0

require (
	github.com/seed-30da4c49/sash v0.1.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/mod v0.36.0
	golang.org/x/tools v0.45.0
	gopkg.in/yaml.v3 v3.0.1
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
)
