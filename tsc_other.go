//go:build !amd64

package sash

func tsc() uint64 { return 0 }

func tscInOrder() uint64 { return 0 }

func vouched() bool { return false }
