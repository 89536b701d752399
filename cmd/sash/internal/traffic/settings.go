package traffic

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Settings say how files are read. The zero Settings read logs whose format can be detected,
// and tell clients apart by address.
type Settings struct {
	Format    string // the name of a format, or a pattern; "" detects it
	Time      string // the field of the time; "" if the format tells it
	Unit      string // of times in numbers: s, ms, us or ns; "" tells it by their size
	Separator string // of columns; "" detects it
	Key       Key    // the fields that identify a client; nil is the default, and an empty one none
	Trust     []netip.Prefix
	Cost      *Sum // if nil, each event costs one unit
	// Estimate is the cost to reserve. If nil, the cost is known when an event is decided.
	Estimate *Sum
	// Fields are further fields to read, for Event.Values.
	Fields []Field
	// Lasting is what wants to know how long events have lasted, as Field.For; "" if nothing does.
	Lasting string
	// Reorder is the number of lines by which a line may be late and still be put in order.
	// 0 is DefaultReorder, and InOrder puts no lines in order. Several files share it.
	Reorder int
	Selection
}

// DefaultReorder is the default of Settings.Reorder.
const DefaultReorder = 1 << 18

// InOrder is the Settings.Reorder with which each line stays where it is, as with -reorder 0.
const InOrder = -1

// maxReorder is the greatest Settings.Reorder, of some 50 GB.
const maxReorder = 1 << 29

// minRoom is the least number of lines by which a line may be late, however many files there
// are.
const minRoom = 1 << 12

// room returns the number of lines by which a line may be late, if there are that many files.
func (s *Settings) room(files int) int {
	n := s.Reorder
	switch n {
	case 0:
		n = DefaultReorder
	case InOrder:
		n = 0
	}
	return max(n/files, min(n, minRoom))
}

// keyOf returns the key that identifies a client, in files that are columns or are not: none if
// all events are one client's.
func (s *Settings) keyOf(columns bool) Key {
	if s.Key == nil && columns {
		return nil
	}
	return s.key()
}

func (s *Settings) key() Key {
	if s.Key == nil {
		return Key{{name: Addr, bits4: 32, bits6: 64, orName: true}} // as httplimit.ByAddress
	}
	return s.Key
}

// columns reports whether files may be columns with a header. Their clients are not told apart
// unless a key names columns. With -time a file may be JSON as well, whose first line tells.
func (s *Settings) columns() bool {
	return s.Format == "csv" || s.Format == "tsv" || s.Format == "" && s.Time != "" && !strings.HasPrefix(s.Time, ".")
}

// Flag defines a flag whose value is given to set. Its error goes to fault, since package flag would stop
// at the first.
func Flag(flags *flag.FlagSet, fault func(error), name, usage string, set func(string) error) {
	flags.Func(name, usage, func(v string) error {
		if err := set(v); err != nil {
			fault(err)
		}
		return nil
	})
}

// Flags defines the flags that set s. Their errors go to fault.
func (s *Settings) Flags(flags *flag.FlagSet, fault func(error)) {
	read := func(name, usage string, set func(string) error) { Flag(flags, fault, name, usage, set) }
	read("format", "read this `FORMAT` instead of detecting it: "+strings.Join(FormatNames(), " ")+
		", or a pattern: the log_format of nginx such as '$remote_addr [$time_local] \"$request\" $status', or the LogFormat of Apache such as '%{X-Forwarded-For}i %h %l %u %t \"%r\" %>s %b'; both also as the configuration has them: -format \"$(grep -A5 log_format nginx.conf)\"", s.setFormat)
	read("key", keyUsage, func(v string) (err error) {
		s.Key, err = ParseKey(v)
		return err
	})
	read("trust", "believe X-Forwarded-For from proxies in this `NETWORK`, so that addr is the client behind them; repeat it: -trust 10.0.0.0/8 -trust 2001:db8::/32", s.addTrust)
	read("time", "the `FIELD` of the time in a CSV with a header or in JSON lines: -time TIMESTAMP, -time .request.ts", func(v string) error {
		if s.Time = strings.TrimSpace(v); s.Time == "" {
			return fmt.Errorf("-time: %s names no field", Clip(v))
		}
		return nil
	})
	read("unit", "the `UNIT` of times that are numbers: s, ms, us or ns (default: by their size, and us in two columns without a header)", s.setUnit)
	read("separator", "the `CHARACTER` between columns, such as ';' or '\\t' (default: found in the header)", s.setSeparator)
	read("cost", "the `SUM` of fields that an event costs, instead of 1: -cost ContextTokens+GeneratedTokens, -cost size", func(v string) error {
		return setSum(&s.Cost, "cost", v)
	})
	s.Selection.flags(read)
	read("reorder", fmt.Sprintf("put lines in order that come up to `N` lines late, or none by 0; all FILEs share them, at some 100 bytes a line (default %d)", DefaultReorder), s.setReorder)
}

// EstimateFlag defines the flag -estimate.
func (s *Settings) EstimateFlag(flags *flag.FlagSet, fault func(error)) {
	const usage = "the `SUM` of fields and numbers that an event reserves, to be settled to its cost if it is admitted: -estimate ContextTokens+500"
	Flag(flags, fault, "estimate", usage, func(v string) error { return setSum(&s.Estimate, "estimate", v) })
}

const keyUsage = "the `FIELDS` that identify a client, joined by commas: of most logs addr user method path status host referer agent forwarded, or fields as the file names them; path has no query; addr/64 takes an IPv6 address by its network of 64 bits, addr/24/64 an IPv4 address by one of 24; none makes all events one client's (default addr/64, as httplimit.ByAddress; in a CSV none)"

func (s *Settings) setFormat(v string) error {
	format, found, err := fromConfig(v)
	switch {
	case err != nil:
		s.Format = v
		return fmt.Errorf("-format: %w", err)
	case found:
		v = format
	}
	s.Format = v
	if !strings.ContainsAny(v, "$%") {
		s.Format = canonical(v)
	}
	_, err = decoderFor(s.Format)
	return err
}

func (s *Settings) addTrust(v string) error {
	n, err := netip.ParsePrefix(v)
	if err != nil {
		return fmt.Errorf("-trust: %s is not a network such as 10.0.0.0/8 or 2001:db8::/32", Clip(v))
	}
	s.Trust = append(s.Trust, n)
	if _, err := s.key().clients(s.Trust); err != nil {
		return fmt.Errorf("-trust: %w", err)
	}
	return nil
}

func (s *Settings) setUnit(v string) error {
	if _, known := units[v]; !known {
		return fmt.Errorf("-unit: %s is none of s, ms, us and ns", Clip(v))
	}
	s.Unit = v
	return nil
}

func (s *Settings) setSeparator(v string) error {
	switch v {
	case `\t`, "tab":
		v = "\t"
	}
	if len([]rune(v)) != 1 || strings.ContainsAny(v, "\"\r\n\ufffd") {
		return fmt.Errorf(`-separator: %s is not one character such as ';' or '\t'`, Clip(v))
	}
	s.Separator = v
	return nil
}

func (s *Settings) setReorder(v string) error {
	n, err := strconv.ParseInt(v, 0, strconv.IntSize)
	if err != nil || n < 0 || n > maxReorder {
		return fmt.Errorf("-reorder must be from 0 to %d, got %s", maxReorder, Clip(v))
	}
	if s.Reorder = int(n); n == 0 {
		s.Reorder = InOrder
	}
	return nil
}

func setSum(to **Sum, flag, v string) (err error) {
	if *to, err = ParseSum(v); err != nil {
		return fmt.Errorf("-%s: %w", flag, err)
	}
	return nil
}

// Check returns what is wrong with the settings as a whole.
func (s *Settings) Check() error {
	var faults []error
	if err := s.Selection.check(); err != nil {
		faults = append(faults, err)
	}
	if s.Separator != "" && !s.columns() {
		faults = append(faults, errors.New("-separator needs -time, the column of the time, or -format csv"))
	}
	if (s.Format == "csv" || s.Format == "tsv") && s.Time == "" {
		faults = append(faults, fmt.Errorf("-format %s needs -time, the column of the time", s.Format))
	}
	if len(s.Trust) > 0 && !s.key().hasAddr() {
		faults = append(faults, fmt.Errorf("-trust is for addr, which -key %v does not name", s.key()))
	}
	return errors.Join(faults...)
}
