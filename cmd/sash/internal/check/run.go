// Package check is the subcommand that checks files of policies before a program loads them. It says what
// each policy does, and what is likely to be a mistake.
//
//	sash check [flags] FILE...
//	sash check limits.yaml
//	sash check -function account -strict limits.yaml more.json
//
// A FILE is what policyfile.Load reads. All its faults are reported, each with its place. Functions that the
// program adds, such as by policyfile.WithKey, are declared by -function. Otherwise, a file that names one
// has a fault, and the command says which ones to declare.
//
// For a file without faults, each policy is explained in a line:
//
//	login: POST /login: 5 an hour for each address; only 401 is charged; denied requests get 429
//
// # Warnings
//
// A warning is about what New accepts and is mostly a mistake. Each begins with the place of the policy.
//
//   - A request is never admitted: its cost, or what it must leave, is more than a limit holds. A cost that
//     the program tells is taken for 0. A shadow denies nothing, so it has no such warning.
//   - A pattern has a method such as post or POTS, which no client sends, or for want of a space a host POST.
//   - Two policies have the same pattern, key and charges: one with the limits of both does the same.
//   - A limit is a counter, which may deny a client that keeps to the limit.
//   - The lease of a limit of what is at once is under 5 seconds: requests that last longer do not count.
//   - A queue lets requests wait for longer than a minute, when most clients and proxies have given up.
//   - Some keys trust proxies and others do not, so these take a proxy for a client.
//   - skip names the network of a trusted proxy, and does not look behind it: it skips all requests.
//   - A key is a header, whose value clients choose, and no policy bounds their addresses.
//   - A plan is told by a header that clients send.
//   - Wrong passwords are counted for each account alone, so any client can lock an account.
//   - charge-uncertain gives back what a client causes that hangs up.
//   - A policy is a shadow, and denies nothing.
//
// A note is about what the file cannot tell, such as whether a proxy stands before the server.
//
// The exit status is 0; 1 if a file has faults or cannot be read, or with -strict a warning; 2 if the command
// line was wrong.
package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/internal/command"
)

// Run runs the subcommand with these arguments and streams, and returns its exit status.
func Run(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse("sash check", err, o.usage, stdout, stderr)
	}
	var out bytes.Buffer
	status := command.OK
	for _, name := range o.files {
		file, err := policies.Load(name, o.functions)
		if err != nil {
			fmt.Fprintln(stderr, errors.Join(err, o.undeclared(file)))
			status = command.Failed
			continue
		}
		if warned := explain(&out, file); warned && o.strict {
			status = command.Failed
		}
	}
	if _, err := out.WriteTo(stdout); err != nil {
		command.Say(stderr, "sash check", fmt.Errorf("writing the report: %w", err))
		return command.Failed
	}
	return status
}

// undeclared says which functions of a file to declare, if any.
func (o *options) undeclared(file *policies.File) error {
	if file == nil {
		return nil
	}
	var names, flags []string
	for _, f := range file.Functions {
		name := fmt.Sprintf("%s (%s)", f.Name, f.Option)
		if !slices.Contains(o.functions, f.Name) && !slices.Contains(names, name) {
			names, flags = append(names, name), append(flags, "-function "+f.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: the program must add %s; if it does, check with %s", file.Name, strings.Join(names, ", "), strings.Join(flags, " "))
}

// explain writes what the policies of a file do, with the warnings and notes. It reports whether there are
// warnings.
func explain(w io.Writer, file *policies.File) (warned bool) {
	fmt.Fprintf(w, "%s: %s\n", file.Name, plural(len(file.Policies), "policy", "policies"))
	for i := range file.Policies {
		fmt.Fprintf(w, "  %s\n", sentence(&file.Policies[i]))
	}
	all := warnings(file)
	for _, f := range all {
		fmt.Fprintf(w, "%s:%d:%d: warning: %q: %s\n", file.Name, f.place.Line, f.place.Column, f.policy, f.text)
	}
	for _, note := range notes(file) {
		fmt.Fprintf(w, "%s: note: %s\n", file.Name, note)
	}
	return len(all) > 0
}

func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
