//go:build !schedules

// Package xsync provides the part of github.com/puzpuzpuz/xsync/v3 that package sash
// uses for its rulesets. Under the build tag schedules, its operations are steps, like
// the ones of package atomic.
package xsync

import "github.com/puzpuzpuz/xsync/v3"

type MapOf[K comparable, V any] = xsync.MapOf[K, V]

func NewMapOf[K comparable, V any]() *MapOf[K, V] { return xsync.NewMapOf[K, V]() }
