module github.com/seed-30da4c49/sash/fuzz

go 1.25.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/seed-30da4c49/sash v0.0.0
)

require github.com/puzpuzpuz/xsync/v3 v3.5.1 // indirect

replace github.com/seed-30da4c49/sash => ../
