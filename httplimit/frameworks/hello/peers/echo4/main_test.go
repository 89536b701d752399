package main

import (
	"testing"

	"github.com/seed-30da4c49/sash/httplimit/frameworks/hello"
)

func TestHello(t *testing.T) {
	hello.Serve(newServer()).CheckPeer(t)
}
