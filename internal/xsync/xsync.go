//go:build !schedules

// Package xsync is github.com/puzpuzpuz/xsync/v3, as far as package sash keeps its
// tables in it. Under the build tag schedules, its operations are steps: see
// package atomic.
package xsync

import "github.com/puzpuzpuz/xsync/v3"

// ShardBits is the logarithm of the number of maps that a table is cut into.
const ShardBits = 8

type MapOf[K comparable, V any] = xsync.MapOf[K, V]

func NewMapOf[K comparable, V any]() *MapOf[K, V] { return xsync.NewMapOf[K, V]() }

func NewMapOfWithHasher[K comparable, V any](hasher func(key K, seed uint64) uint64, options ...func(*xsync.MapConfig)) *MapOf[K, V] {
	return xsync.NewMapOfWithHasher[K, V](hasher, options...)
}

func WithPresize(sizeHint int) func(*xsync.MapConfig) { return xsync.WithPresize(sizeHint) }
