package traffic

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// lasting is the field that tells how long a request has lasted, in nanoseconds, whatever the unit of the
// log. A field that flags name as duration is another: it has the value that stands in the log. No argument of a
// command has a zero byte, so no flag names lasting.
const lasting = "\x00duration of the request"

// duration is the field of several servers, and the column, for lasting.
const duration = "duration"

// durations are the fields in which servers log how long a request has lasted.
var durations = []alias{
	{"request_time", inSeconds},                // nginx
	{"duration_us", inUnits(1e3)},              // Apache: %D
	{"us", inUnits(1e3)}, {"ms", inUnits(1e6)}, // Apache: %{us}T and %{ms}T
	{"duration_s", inSeconds}, {"s", inSeconds}, // Apache: %T and %{s}T
	{"timers", lastTimer},                                   // HAProxy
	{"request_processing_time", inSeconds},                  // AWS: and two more, which amazon adds
	{"Duration", inUnits(1)},                                // Traefik
	{"time-taken", inSecondsOrMilliseconds},                 // IIS, CloudFront
	{duration, inSeconds},                                   // Caddy and others; of Envoy, jsonLines reads milliseconds
	{"elapsed", inUnits(1e6)}, {"total_time", inUnits(1e6)}, // Squid, Amazon S3
}

// inSeconds returns seconds with decimals in nanoseconds. Other text stays, and is no duration.
func inSeconds(v string) string { return scaled(v, 1e9) }

// inUnits returns what converts a number of that many nanoseconds.
func inUnits(length int64) func(string) string {
	return func(v string) string { return scaled(v, length) }
}

// inWholeMilliseconds returns milliseconds without decimals in nanoseconds. Other text stays: lastsOf refuses it.
func inWholeMilliseconds(v string) string {
	if strings.Contains(v, ".") {
		return v
	}
	return scaled(v, 1e6)
}

// inSecondsOrMilliseconds converts a time of the W3C Extended Log: CloudFront logs seconds with decimals,
// and IIS whole milliseconds.
func inSecondsOrMilliseconds(v string) string {
	if strings.Contains(v, ".") {
		return inSeconds(v)
	}
	return scaled(v, 1e6)
}

// lastTimer returns the last of HAProxy's timers, the total time. It has a plus sign if the request was
// logged before its end.
func lastTimer(v string) string {
	return scaled(strings.TrimPrefix(v[strings.LastIndexByte(v, '/')+1:], "+"), 1e6)
}

// scaled multiplies a number with decimals by the length of its unit.
func scaled(v string, length int64) string {
	whole, decimals, _ := strings.Cut(v, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/length-1 || strings.Trim(decimals, "0123456789") != "" {
		return v
	}
	n *= length
	for _, c := range decimals {
		if length /= 10; length == 0 {
			break
		}
		n += int64(c-'0') * length
	}
	return strconv.FormatInt(n, 10)
}

// lastsOf returns a duration in nanoseconds. A request that a server has not measured has lasted no time.
func lastsOf(v string) (int64, error) {
	switch v {
	case "", "-", "-1":
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("duration %s is none: want a number, and of Envoy whole milliseconds", Clip(v))
	}
	return n, nil
}
