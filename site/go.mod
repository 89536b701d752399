// Not published: it makes a web site of the documents.
module github.com/seed-30da4c49/sash/site

go 1.25.0

require (
	github.com/stretchr/testify v1.11.1
	github.com/yuin/goldmark v1.8.7
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
