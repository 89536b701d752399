package sash

import "slices"

// A target is one of the keys of a call on several.
type target struct {
	key
	order     int       // among the keys, as the caller gave them
	leave     int64     // units that the charge must leave, as the caller asks
	crossed   limitSet  // the limits that the charge has crossed: see noteCrossings
	claimed   int64     // units that the charge must leave, for calls that wait
	before    uint64    // the unused keys that the call may evict: those with a smaller seq; 0: all
	waits     bool      // whether it is of a call that has waited: see evict
	reserve   bool      // whether the charge may be given back, which takes a multi-limit entry
	holding   bool      // whether the charge may be given back if units of the key are held, by the entry that is charged
	locked    bool      // whether this call has locked the entry
	made      bool      // whether this call has inserted an entry for it, unless another was first
	outgrown  bool      // whether the entry is a log without room for the charge: see markOutgrown
	near      uint8     // the percentage of each limit below which a crossing is to be noted; 0: none is
	placement placement // which entry decides
	origins   []origin  // if reserve is set: where the charge was recorded
	entry     *entry    // nil: none
	word      uint64    // from which the entry was read or locked
	resolved  resolved  // of a key without an entry
	ruleset   *ruleset  // of the table that the entry is in, or of the key if it has none
}

// A placement says which entry decides for a target of a call.
type placement uint8

const (
	placedOwn         placement = iota // its own, or one that it is to get
	placedShared                       // one that keys without room share
	placedWithAnother                  // the one that another target before it shares: both count once
	placedNowhere                      // none: it has no room, and is refused
	placedFresh                        // none: its ruleset never charges it, so it is always as a fresh key
)

// needsEntry reports whether t has no entry, and cannot be charged without.
func (t *target) needsEntry() bool { return t.entry == nil && t.placement == placedOwn }

// roomFor returns the number of keys among targets that have an entry or are to have one.
func roomFor(targets []target) (keys int64) {
	for i := range targets {
		if targets[i].placement != placedFresh {
			keys++
		}
	}
	return keys
}

// anyPlaced reports whether any target has placement p.
func anyPlaced(targets []target, p placement) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.placement == p })
}
