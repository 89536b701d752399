package httplimit

import (
	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// internals are the functions of package sash that it does not export.
var internals = bridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock]()
