package sashredis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

// A Conn runs scripts on a server. The packages rueidisconn and goredisconn make one of a
// client. All its methods must be safe for concurrent use.
type Conn interface {
	// Run runs s with keys and args, and returns its reply, which is always text. It must
	// return once ctx is done, whatever the server does. ctx has the values of the context of the call, or of the
	// first of several that share the round trip: see WithRoundTripHook.
	//
	// It must never run s again if s may have run: a call whose outcome is unknown may have
	// charged. It may run s again after an answer which says that s did not run: NOSCRIPT,
	// MOVED, ASK.
	//
	// The error of a server must contain the text that the server sent.
	Run(ctx context.Context, s *Script, keys, args []string) (reply string, err error)
}

// A Script is a Lua script that a [Conn] runs. Its methods are safe for concurrent use.
type Script struct{ text, sha1 string }

// Text returns the script, for EVAL.
func (s *Script) Text() string { return s.text }

// SHA1 returns the digest of the script in hexadecimal, for EVALSHA.
func (s *Script) SHA1() string { return s.sha1 }

//go:embed scripts/*.lua
var sources embed.FS

// source returns the text of files of scripts.
func source(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	return b.String()
}

// scriptOf returns the script with that text.
func scriptOf(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

// scripts are the scripts for limits of some algorithms. They have no code for the others, since the
// server makes all functions of a script at each call.
type scripts struct{ take, settle *Script }

// letters are the letters by which the scripts know the algorithms, but for h: what is held is kept in a
// ring.
const letters = "tcrp"

// algorithmBit returns the bit of the algorithm of that letter in a set of them.
func algorithmBit(letter byte) int {
	if letter == 'h' {
		letter = 'r'
	}
	return 1 << strings.IndexByte(letters, letter)
}

var (
	scriptsOf   [1 << len(letters)]*scripts // by the set of algorithms: a bit for each of letters
	resetScript = scriptOf(source("time", "common", "reset"))
	pingScript  = scriptOf(source("time", "common", "ping"))
)

func init() {
	const inTicks = 1<<2 | 1<<3                                               // ring and parts
	fast := map[int]string{1: "fastbucket", 2: "fastcounter", 8: "fastparts"} // of a single one
	for algorithms := range scriptsOf {
		names := []string{"common"}
		if algorithms&inTicks != 0 {
			names = append(names, "ticks")
		}
		for i, name := range []string{"bucket", "counter", "ring", "parts"} {
			if algorithms>>i&1 == 1 {
				names = append(names, name)
			}
		}
		text := source(append(names, "key")...)
		settle, take := text+source("settle"), text+source("take")
		if name := fast[algorithms]; name != "" {
			// The server makes all functions of a script anew at each run. So all functions of the slow
			// path are within one, which a run of the fast path does not call.
			take = "local function slow()\n" + take + "end\n" + source(name) + "return slow()\n"
		}
		scriptsOf[algorithms] = &scripts{scriptOf(source("time") + take), scriptOf(source("time") + settle)}
	}
}
