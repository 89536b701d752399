//go:build !schedules

// Package xsync is github.com/puzpuzpuz/xsync/v3, as far as package sash keeps
// policies in it. Under the build tag schedules, its operations are steps: see
// package atomic.
package xsync

import "github.com/puzpuzpuz/xsync/v3"

type MapOf[K comparable, V any] = xsync.MapOf[K, V]

func NewMapOf[K comparable, V any]() *MapOf[K, V] { return xsync.NewMapOf[K, V]() }
