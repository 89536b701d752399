package traffic

import (
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A realLog is a log as a vendor or a tool shows it, with what each line of it must be read as.
type realLog struct {
	from   string   // where the lines are shown
	args   []string // what the command line has
	key    string   // the fields that the log has; "": addr method path status size agent
	log    string
	at     string // of the first event; "" if the log is refused
	client string // of the first event: the values of the key
	format string // that is detected, and perhaps the prefix that is named; "" if args name it
	why    string // why a line is unreadable, or the log is refused; "" if all is read
}

const (
	fields   = "addr,method,path,status,size,agent"
	noAgent  = "addr,method,path,status,size"
	noSize   = "addr,method,path,status,agent"
	justAddr = "addr"
)

// settingsOf returns the settings of a command line.
func settingsOf(args []string) (*Settings, error) {
	s := &Settings{}
	var fault error
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	s.Flags(flags, func(err error) { fault = err })
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return s, fault
}

func (l *realLog) read(t *testing.T) (*Traffic, []Event, error) {
	t.Helper()
	key := l.key
	if key == "" {
		key = fields
	}
	s, err := settingsOf(append(l.args, "-key", key))
	if err != nil {
		return nil, nil, err
	}
	var events []Event
	tr, err := Read(t.Context(), s, []string{StandardInput}, strings.NewReader(l.log+"\n"), io.Discard, func(_ *Traffic, e []Event) error {
		events = append(events, e...)
		return nil
	})
	return tr, events, err
}

// Logs of servers, of load balancers and of what collects them are read as they say, or refused with the
// reason.
func TestRealLogs(t *testing.T) {
	read, refused := 0, 0
	for _, l := range realLogs {
		t.Run(l.from, func(t *testing.T) {
			tr, events, err := l.read(t)
			if l.at == "" {
				refused++
				require.NotEmpty(t, l.why, "want a reason")
				if err == nil {
					require.Empty(t, events)
					require.NotEmpty(t, tr.Faults)
					assert.Contains(t, tr.Faults[0].Why, l.why)
					return
				}
				assert.Contains(t, err.Error(), l.why)
				return
			}
			read++
			require.NoError(t, err)
			require.NotEmpty(t, events, tr.Faults)
			when, err := time.Parse(time.RFC3339Nano, l.at)
			require.NoError(t, err)
			assert.Equal(t, when.UnixNano(), events[0].At)
			assert.Equal(t, l.client, tr.Clients[events[0].Client])
			require.Len(t, tr.Formats, 1)
			assert.Contains(t, tr.Formats[0].Format+": "+tr.Formats[0].Why, l.format)
			assert.Equal(t, tr.Lines, tr.Events+tr.Blank+tr.Unreadable+tr.Headings+tr.Parts)
			if l.why == "" {
				assert.Zero(t, tr.Unreadable, tr.Faults)
				return
			}
			require.NotEmpty(t, tr.Faults)
			assert.Contains(t, tr.Faults[0].Why, l.why)
		})
	}
	t.Logf("%d of %d: %d read, %d refused", read+refused, len(realLogs), read, refused)
	assert.GreaterOrEqual(t, len(realLogs), 81)
}
