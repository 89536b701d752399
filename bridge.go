package sash

import "github.com/seed-30da4c49/sash/internal/bridge"

func init() {
	bridge.Inspect = func(options any) bridge.Inspection { return inspect(options.([]Option)) }
	bridge.LimitFaults = func(limits any) []error { return limitFaults("", limits.([]Limit)) }
	bridge.RefuseReconfigure = func(err error) any {
		return optionFunc(func(c *config) { c.noReconfigure = err })
	}
	bridge.SweepInterval = sweepIntervalFor
}

// inspect applies options to an empty config and returns the part of it that httplimit
// must know.
func inspect(options []Option) (result bridge.Inspection) {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	result.Limits = len(c.limits) > 0
	if c.limitsFor != nil {
		result.LimitsFor = c.limitsFor
	}
	return result
}
