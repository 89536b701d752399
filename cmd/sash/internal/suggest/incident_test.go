package suggest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

// A dayOf is the log of a day on which 1,000 clients make some requests each.
type dayOf struct {
	random *rand.Rand
	lines  []string // begin with the time, by which they are sorted
}

var theDay = time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)

func newDay() *dayOf {
	d := &dayOf{random: rand.New(rand.NewPCG(1, 0xd))}
	for client := range 1000 {
		for range 2 + d.random.IntN(4) {
			begin := time.Duration(d.random.Int64N(int64(23 * time.Hour)))
			d.visit(client, begin, 1+d.random.IntN(4), 200)
		}
	}
	return d
}

// visit adds requests of a client, one a second.
func (d *dayOf) visit(client int, begin time.Duration, requests, status int) {
	for i := range requests {
		at := theDay.Add(begin + time.Duration(i)*time.Second)
		d.lines = append(d.lines, fmt.Sprintf("%s\x00198.51.%d.%d - - [%s] \"GET / HTTP/1.1\" %d 10\n", at.Format(time.RFC3339), client/250, client%250, at.Format("02/Jan/2006:15:04:05 -0700"), status))
	}
}

func (d *dayOf) log() string {
	slices.Sort(d.lines)
	var b strings.Builder
	for _, line := range d.lines {
		_, text, _ := strings.Cut(line, "\x00")
		b.WriteString(text)
	}
	return b.String()
}

// suggests runs suggest on the log of a day, and returns the suggested limit and what is said of incidents.
func (d *dayOf) suggests(t *testing.T, args ...string) (limit string, incidents []string) {
	t.Helper()
	got := invoke(d.log(), append(args, "-json", "-window", "1m")...)
	require.Equal(t, command.OK, got.status, got.stderr)
	r := got.report(t)
	for _, w := range r.Warnings {
		if w.Kind == "incident" {
			incidents = append(incidents, w.Text)
		}
	}
	return rate(r.Windows[0].Suggested.Limit), incidents
}

func TestIncident_OfMinutesInWhichRequestsFail(t *testing.T) {
	d := newDay()
	usual, incidents := d.suggests(t)
	require.Empty(t, incidents)
	for client := range 100 { // who try again and again while the server fails
		d.visit(client, 12*time.Hour+time.Duration(d.random.IntN(500))*time.Second, 60, 503)
	}
	limit, incidents := d.suggests(t)
	require.NotEqual(t, usual, limit)
	require.Len(t, incidents, 2)
	require.Regexp(t, `^100% of the busiest windows of 1m, of the 100 clients with 30 or more in one, lie from 2026-03-10 1[12]:\d\d to 12:\d\d, with \d\d\.\d{3}% of the events\. If that was an incident, leave it out: -without \S+\.$`, incidents[0])
	require.Regexp(t, `^100% of the busiest windows of 1m, .* end in minutes in which most answers were 5xx: clients may have tried again\. To leave these out: -where 'status!=5xx'\.$`, incidents[1])

	_, span, _ := strings.Cut(incidents[0], "-without ")
	for _, without := range [][]string{{"-without", strings.TrimSuffix(span, ".")}, {"-where", "status!=5xx"}} {
		limit, incidents = d.suggests(t, without...)
		require.Equal(t, usual, limit)
		require.Empty(t, incidents)
	}
}

// A few clients are no incident.
func TestIncident_IsNotOfAFew(t *testing.T) {
	d := newDay()
	for client := range leastBusy - 1 {
		d.visit(client, 12*time.Hour, 60, 503)
	}
	_, incidents := d.suggests(t)
	require.Empty(t, incidents)
}

// Busy clients that are busy at different times are what the service is used for.
func TestIncident_IsNotWhatIsSpread(t *testing.T) {
	d := newDay()
	for client := range 100 {
		d.visit(client, time.Duration(client)*10*time.Minute, 60, 200+300*(client%2)*(client%3/2))
	}
	_, incidents := d.suggests(t)
	require.Empty(t, incidents)
}
