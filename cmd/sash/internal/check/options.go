package check

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// options are the settings of the command line.
type options struct {
	functions []string // that are declared
	strict    bool
	files     []string

	flags *flag.FlagSet
}

// parseArgs reads the command line. Its error names every fault found, or is flag.ErrHelp.
func parseArgs(args []string) (*options, error) {
	o := &options{flags: flag.NewFlagSet("sash check", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // Run prints errors and usage
	var faults []error
	o.flags.Func("function", "the `NAME` of a function that the program adds, by policyfile.WithKey and the like; repeat it: -function account -function tier", func(name string) error {
		if name == "" {
			faults = append(faults, errors.New("-function: the name must not be empty"))
			return nil
		}
		o.functions = append(o.functions, name)
		return nil
	})
	o.flags.BoolVar(&o.strict, "strict", false, "exit with status 1 if there is a warning, as for a fault: -strict")
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	o.files = o.flags.Args()
	if len(o.files) == 0 {
		faults = append(faults, errors.New("no FILE, want one or more such as limits.yaml"))
	}
	for _, name := range o.files {
		if strings.HasPrefix(name, "-") {
			faults = append(faults, fmt.Errorf("%s comes after a FILE: flags stand before them; a file of that name is ./%s", name, name))
		}
	}
	return o, errors.Join(faults...)
}

const usageText = `Usage: sash check [flags] FILE...

Checks files of policies, as policyfile.Load reads them: reports each fault with
its place, says in a line what each policy does, and warns of likely mistakes.

  sash check limits.yaml
  sash check -function account -strict limits.yaml more.json

Flags:
`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 for a fault, or with -strict a warning; 2 for a wrong command\nline.\n")
}
