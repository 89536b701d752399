module github.com/seed-30da4c49/sash/sashredis

go 1.25.0

replace github.com/seed-30da4c49/sash => ../
