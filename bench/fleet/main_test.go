package main

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" { // a process of a fleet is this program, whatever it is
		main()
		return
	}
	os.Exit(m.Run())
}
