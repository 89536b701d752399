package sash

import "github.com/seed-30da4c49/sash/internal/bridge"

func init() {
	bridge.Inspect = func(options any) bridge.Inspection { return inspect(options.([]Option)) }
	bridge.RefuseReconfigure = func(err error) any {
		return optionFunc(func(c *config) { c.noReconfigure = err })
	}
}

func inspect(options []Option) (result bridge.Inspection) {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	result.Observed = c.observer != nil
	if c.limitsFor != nil {
		result.LimitsFor = func(key string) []Limit { return validOrNone(c.limitsFor(key)) }
	}
	return result
}
