package httplimit

import (
	"net/http"

	"github.com/seed-30da4c49/sash"
)

// pendingCharges are the charges of one request that may be given back after its
// answer.
type pendingCharges []pendingCharge

// A pendingCharge is a reservation that is kept or given back after the answer.
type pendingCharge struct {
	*policy
	reservation sash.Reservation
	observer    func(Event)
	eventFields eventFields
	event       Event // to be reported if the charge is given back, or if the policy fails
}

// pendingCharges returns the charges of c that may be given back. Each holds all that
// it needs, since c is released before the answer.
func (c *call) pendingCharges() (all pendingCharges) {
	for i := range c.takes {
		t := &c.takes[i]
		if !t.givesBack() || t.Shadow && !t.decision.Allowed {
			continue
		}
		one := pendingCharge{policy: t.policy, reservation: t.reservation, observer: c.observer, eventFields: c.eventFields}
		if c.observer != nil {
			one.event = c.newPendingEvent(t)
		}
		all = append(all, one)
	}
	return all
}

// serve calls next, and keeps the charges or gives them back by its answer. A panic of
// next passes through afterwards.
func (all pendingCharges) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, ctx: r.Context()}
	returned := false
	defer func() { all.settle(r, rec.status, returned && rec.certain()) }()
	rec.serve(next, r)
	returned = true
}

func (all pendingCharges) settle(r *http.Request, status int, certain bool) {
	for i := range all {
		all[i].settle(r, status, certain)
	}
}

// settle keeps c or gives it back. It recovers from a panic of the observer: the answer
// is already written, and the other charges must be settled too.
func (c *pendingCharge) settle(r *http.Request, status int, certain bool) {
	defer logPanics(r)
	if !c.askPolicy(r, status, certain) {
		c.reservation.Cancel()
		c.observe(GivenBack)
	}
}

// askPolicy calls Charge or ChargeUncertain and returns its answer, which is true if c
// stays. If the function panics, c stays.
func (c *pendingCharge) askPolicy(r *http.Request, status int, certain bool) (stays bool) {
	ask := c.Charge
	if !certain {
		ask = c.ChargeUncertain
	}
	if ask == nil {
		return true
	}
	defer func() {
		if fault := recover(); fault != nil {
			logPanic(r, c.policy, fault)
			stays = true
			c.observe(Failed)
		}
	}()
	return ask(status)
}

func (c *pendingCharge) observe(outcome Outcome) {
	if c.observer != nil {
		c.event.Outcome = outcome
		c.eventFields.restrict(&c.event)
		c.observer(c.event)
	}
}
