//go:build !schedules

package sash

// shardBits is the logarithm of the number of maps that a table is cut into.
const shardBits = 8

// A shard is one of the maps that a table is cut into.
type shard = cells
