package httplimit

import (
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// A Denial says why a request is answered 429 or 503.
type Denial struct {
	// Violated is the names of the quotas that denied the request, at least one. For each
	// policy that denied it, it names the quota that takes longest to admit it. It is empty if
	// the store of [WithStore] denied the request without knowing of a quota that does.
	Violated []string
	// RetryAfter is the time to wait, exact to the nanosecond. It is [sash.Never] if no
	// wait would do, because the request costs more than a limit ever admits.
	RetryAfter time.Duration
	// By tells who denied the request, under [WithStore] only: see [Event].By.
	By string
	// Err is nil if the request is answered 429. Otherwise it is answered 503, and Err is the reason:
	//   - [http.ErrServerClosed] if the request would have waited in a [Queue] but for [Limiter.Close].
	//   - Why the store of [WithStore] did not decide, if Violated is empty.
	Err error
}

// ServeHTTP writes the answer of a denial: status 429 and problem details of the type
// quota-exceeded, as in the current draft of the RateLimit fields, which name the
// quotas. If there is an Err, the status is 503 and the type temporary-reduced-capacity, and
// the details do not tell Err. It sets Content-Type and Cache-Control; the other headers must
// have been set before. The answer contains nothing of the request and nothing about the client.
func (d Denial) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if d.Err != nil {
		fields.AnswerUnavailable(w)
		return
	}
	fields.AnswerQuotaExceeded(w, d.Violated)
}
