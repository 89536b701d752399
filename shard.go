//go:build !schedules

package sash

import "github.com/seed-30da4c49/sash/internal/hashmap"

// shardBits is the number of high bits of a hash that choose the shard.
const shardBits = hashmap.ShardBits

// A shard is one of the maps of a sharded.
type shard = hashmap.Map
