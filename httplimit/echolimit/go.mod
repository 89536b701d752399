module github.com/seed-30da4c49/sash/httplimit/echolimit

go 1.25.0

require (
	github.com/labstack/echo/v5 v5.4.4
	github.com/seed-30da4c49/sash v0.1.0
)

require golang.org/x/sync v0.22.0 // indirect

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect
)
