// Not published: it releases the modules.
module github.com/seed-30da4c49/sash/internal/release

go 1.25.0

require (
	github.com/seed-30da4c49/sash v0.1.0
	golang.org/x/mod v0.29.0
)
