module github.com/seed-30da4c49/sash/fuzz

go 1.25.0

require github.com/seed-30da4c49/sash v0.0.0

replace github.com/seed-30da4c49/sash => ../
