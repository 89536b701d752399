//go:build !yields

package sash

const yielding = false
