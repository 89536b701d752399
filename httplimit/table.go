package httplimit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// A table is all that a limiter makes of its policies. It does not change: Reconfigure makes another one.
// A call has one table from its beginning to its end, or starts over.
type table struct {
	given       []Policy  // in the order in which they were given
	policies    []*policy // the enforced ones, then the shadows
	firstShadow int       // index in policies

	routes route.Table

	// The policies and, for each of their plans, another one are variants. Keys of the sash.Limiter begin
	// with the number of a variant, and keys of a store with its storedName.
	variants []*policy
	byName   map[string]*policy            // by storedName
	byNumber map[int]*policy               // by number
	next     int                           // no number from here on was ever given
	base     *policy                       // whose limits are the own limits of the sash.Limiter
	own      func(key string) []sash.Limit // the caller's sash.WithLimitsFor; nil: none
	stored   bool                          // whether the keys are in a store
	observed bool                          // whether there is an observer
}

// newTable compiles the policies of c, which are valid, to replace the table former; nil for none. A
// variant that is in both keeps its number, and so its keys. No other number is used twice: a policy that
// was taken away and comes again begins anew, even while requests under it are served.
func newTable(c *config, former *table) *table {
	if former == nil {
		former = new(table)
	}
	t := &table{
		given: clonePolicies(c.policies), own: c.ownLimitsFor, stored: c.openStore != nil,
		byName: make(map[string]*policy), byNumber: make(map[int]*policy), next: former.next,
		routes: route.Table{Paths: c.paths}, observed: len(c.observers) > 0,
	}
	for _, shadow := range []bool{false, true} {
		t.firstShadow = len(t.policies)
		for _, p := range t.given {
			if p.Shadow == shadow {
				t.policies = append(t.policies, t.newVariant(p, "", t.routes.Add(p.Pattern), former))
			}
		}
	}
	for _, p := range t.policies {
		for _, plan := range slices.Sorted(maps.Keys(p.Plans)) { // sorted, so that numbers are the same in each process
			under := p.Policy
			under.Limits = p.Plans[plan]
			made := t.newVariant(under, plan, p.route, former)
			made.whole, p.plans[plan] = p, made
		}
	}
	if t.base = t.policies[0]; former.base != nil {
		if still := t.byNumber[former.base.number]; still != nil {
			t.base = still // its keys need not be converted
		}
	}
	return t
}

// newVariant compiles a valid policy with the Limits of one plan; the empty plan is its own Limits.
func (t *table) newVariant(p Policy, plan string, route int, former *table) *policy {
	name := p.Name
	if plan != "" { // both are printable, so no two variants begin alike
		name += storedPlan + plan
	}
	made := &policy{
		Policy: p, plans: make(map[string]*policy), storedName: name, route: route, chargeKey: chargeKey(p.Name),
		everyone: isEveryone(p.Key),
		holds:    slices.ContainsFunc(p.Limits, quota.IsHeld),
		settles:  p.Charge != nil || p.ChargeUncertain != nil || p.Settle != nil,
		pace:     slices.MaxFunc(p.Limits, func(a, b sash.Limit) int { return cmp.Compare(a.Window, b.Window) }),
		quotas:   quota.Of(p.Name, p.Limits, p.Unit),
	}
	made.whole = made
	if t.observed {
		made.near = int64(p.Near)
	}
	made.onTerms = p.Cost != nil || p.Leave != nil || made.near > 0
	made.Limits = p.deciding(p.Limits) // clients are not told of limits that carry debts
	var quotas []string
	for _, q := range made.quotas {
		quotas = append(quotas, q.Policy)
	}
	made.policyField = strings.Join(quotas, ", ")
	if same := former.byName[name]; same != nil {
		made.number = same.number
	} else { // a number that no key has ever had
		made.number = t.next
		t.next++
	}
	t.variants = append(t.variants, made)
	t.byName[name], t.byNumber[made.number] = made, made
	return made
}

// limitsFor returns the limits of a key, the caller's or its policy's. None means base's, or a foreign
// key. Keys of a policy that was taken away are unlimited, so that the Reconfigure drops them.
func (t *table) limitsFor(key string) []sash.Limit {
	if t.gone(key) {
		return []sash.Limit{sash.Unlimited()}
	}
	if t.own != nil { // limits of a key's own go before the policy's
		if limits := t.own(key); len(limits) > 0 {
			return limits
		}
	}
	if p, _, _ := t.cutKey(key); p != nil && (p != t.base || t.stored) {
		return p.Limits
	}
	return nil
}

// gone reports whether key is one of a policy, or plan, that was taken away.
func (t *table) gone(key string) bool {
	number, _, _ := cutKeyPrefix(key)
	return !t.stored && number != foreign && t.byNumber[number] == nil && number < t.next
}

// sweepInterval returns how often to sweep: as said or, if that is 0, the default of sash for the longest
// window of all policies.
func (t *table) sweepInterval(said time.Duration) time.Duration {
	var longest time.Duration
	for _, p := range t.variants {
		for _, limit := range p.Limits {
			_, window := quota.UnitsAndWindow(limit)
			longest = max(longest, window)
		}
	}
	return cmp.Or(said, internals.SweepInterval(longest))
}

// refusal returns why sash.Limiter.Reconfigure of the limiter below is refused; nil if it is not.
func (t *table) refusal() error {
	if len(t.variants) == 1 {
		return nil
	}
	return fmt.Errorf("httplimit: sash.Limiter.Reconfigure does not say which of %d policies and plans the limits are for; "+
		"Limiter.Reconfigure replaces policies, and SetLimits gives limits to a key of KeyFor: %w", len(t.variants), errors.ErrUnsupported)
}

// cutKey returns the parts of a key, and whether it has a digest. p is nil if no policy has the key.
func (t *table) cutKey(key string) (p *policy, identity string, digested bool) {
	if !t.stored {
		number, identity, digested := cutKeyPrefix(key)
		return t.byNumber[number], identity, digested
	}
	end := strings.IndexAny(key, storedIdentity+storedDigest)
	if end < 0 {
		return nil, "", false
	}
	return t.byName[key[:end]], key[end+1:], key[end] == storedDigest[0]
}

// foreign stands for the number of the policy in a key that is not one of the limiter's.
const foreign = -1

// cutKeyPrefix returns the parts of a key of the sash.Limiter. Its prefix is a varint: twice the number
// of the policy, plus 1 in front of a digest. No varint is a prefix of another one. So no key of one
// policy is a key of another, and no digest is taken for an identity.
func cutKeyPrefix(key string) (policy int, identity string, digested bool) {
	prefix, n := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen32)]))
	if n <= 0 || n > 1 && key[n-1] == 0 || prefix>>1 > math.MaxInt32 {
		return foreign, "", false // appendKey writes the shortest varint, and no number as large
	}
	return int(prefix >> 1), key[n:], prefix&1 != 0
}

// The bytes after the names in a key of a store. No name contains them, since names are printable.
const (
	storedIdentity = "\x00" // what follows is the identity
	storedDigest   = "\x01" // what follows is the digest of an identity that was too long
	storedPlan     = "\x02" // what follows, up to one of the others, is the plan
)

// storedKey returns the key in a store of a key under p, in which the names of the policy and of the
// plan, which are the same in all processes, replace the number. It shares no memory with key.
func (p *policy) storedKey(key string) string {
	_, identity, digested := cutKeyPrefix(key)
	if digested {
		return p.storedName + storedDigest + identity
	}
	return p.storedName + storedIdentity + identity
}

// HashTag returns the identity in a key of a [Limiter] with a [Store]: the key without the name of its
// policy. It is for policies that identify clients alike, on a Redis cluster: the keys of one client
// under all of them are then in one slot. See [WithStore].
func HashTag(key string) string {
	return key[strings.IndexAny(key, storedIdentity+storedDigest)+1:]
}
