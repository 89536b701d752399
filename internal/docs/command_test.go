package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/testnames"
)

// checkCommand returns the faults of a line of shell that is run in dir, or nil. It checks go
// test, go run, go get, go install, sash, make and .ci/run. It accepts all other commands.
func checkCommand(dir, line string) error {
	var faults []error
	for _, words := range commands(line) {
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:] // of a variable, for this command
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "sash" {
			words = append([]string{"go", "run", "./cmd/sash"}, words[1:]...)
		}
		var err error
		switch strings.Join(words[:min(2, len(words))], " ") {
		case "go test":
			err = checkTest(dir, words[2:])
		case "go run":
			err = checkRun(dir, words[2:])
		default:
			err = checkTool(dir, words)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
		}
	}
	return errors.Join(faults...)
}

var assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)

// checkRun checks the arguments of go run: the package exists, and its source names each flag.
// If the first argument is a subcommand, which is a package in internal, the source of that
// names them.
func checkRun(dir string, args []string) error {
	if len(args) == 0 {
		return errors.New("names no package")
	}
	place := packageDir(dir, args[0])
	faults := []error{isPackage(place)}
	if len(args) > 1 && isPackage(filepath.Join(place, "internal", args[1])) == nil {
		place = filepath.Join(place, "internal", args[1])
	}
	for _, arg := range args[1:] {
		if name, flag := strings.CutPrefix(strings.Trim(arg, "[]"), "-"); flag && name != "" {
			faults = append(faults, declares(place, name))
		}
	}
	return errors.Join(faults...)
}

// packageDir returns the directory of a package that a command in dir names by its path, or by
// its import path and a version.
func packageDir(dir, path string) string {
	path, _, _ = strings.Cut(path, "@")
	if nested, found := strings.CutPrefix(path, "github.com/seed-30da4c49/sash/"); found {
		return filepath.Join(root, nested)
	}
	return filepath.Join(dir, path)
}

// declares returns an error if no Go file in dir contains the name of a flag in quotes.
func declares(dir, flag string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(source), `"`+flag+`"`) {
			return nil
		}
	}
	return fmt.Errorf("no flag -%s", flag)
}

// isPackage returns an error if dir has no Go files.
func isPackage(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no package in %s", filepath.ToSlash(dir))
	}
	return err
}

// A testCommand is a command line of go test.
type testCommand struct {
	dir      string
	flags    map[string]string
	packages []string // as the command names them
}

// switches are flags of go test that take no value, and settings are flags that take one. Any
// other flag must be declared by the tests. It has a value unless it is the last word.
var (
	switches = []string{"race", "v", "short", "benchmem", "failfast", "json", "cover"}
	settings = []string{"run", "bench", "fuzz", "skip", "fuzztime", "fuzzminimizetime", "benchtime", "cpu", "timeout", "tags", "count"}
)

// parseTest returns the command line of a go test that is run in dir with args.
func parseTest(dir string, args []string) testCommand {
	c := testCommand{dir: dir, flags: make(map[string]string)}
	for len(args) > 0 {
		name, flag := strings.CutPrefix(args[0], "-")
		value, inline := "", false
		if flag {
			name, value, inline = strings.Cut(strings.TrimPrefix(name, "-"), "=")
		}
		args = args[1:]
		switch {
		case !flag:
			c.packages = append(c.packages, name)
			continue
		case !inline && !slices.Contains(switches, name) && len(args) > 0:
			value, args = args[0], args[1:]
		}
		c.flags[name] = value
	}
	if len(c.packages) == 0 {
		c.packages = []string{"."}
	}
	return c
}

// checkTest checks the arguments of go test: the packages and flags exist, and each
// alternative of each pattern matches a function.
func checkTest(dir string, args []string) error {
	c := parseTest(dir, args)
	functions, err := c.functions()
	if err != nil {
		return err
	}
	faults := []error{c.checkFlags(), c.checkFuzz(functions)}
	for flag, pattern := range c.flags {
		if pattern != "^$" && slices.Contains([]string{"run", "skip", "bench", "fuzz"}, flag) {
			faults = append(faults, checkPattern(flag, pattern, functions))
		}
	}
	return errors.Join(faults...)
}

// functions returns the test functions of each package that c names.
func (c *testCommand) functions() (all map[string]testnames.Functions, err error) {
	all = make(map[string]testnames.Functions)
	var tags []string
	if names, set := c.flags["tags"]; set {
		tags = strings.Split(names, ",")
	}
	for _, name := range c.packages {
		tree, recursive := strings.CutSuffix(name, "...")
		if recursive {
			all[name], err = inTree(filepath.Join(c.dir, tree), tags)
		} else {
			all[name], err = testnames.In(filepath.Join(c.dir, name), tags...)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inTree returns the test functions of all packages in dir and below it, without
// other modules.
func inTree(dir string, tags []string) (all testnames.Functions, err error) {
	all = make(testnames.Functions)
	return all, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != filepath.Clean(dir) || skipped(path, entry) {
			return filepath.SkipDir
		}
		if isPackage(path) != nil {
			return nil
		}
		here, err := testnames.In(path, tags...)
		for kind, names := range here {
			all[kind] = append(all[kind], names...)
		}
		return err
	})
}

// checkFlags returns an error for each flag that the tests do not declare, and for a test of a
// whole tree without a -timeout.
func (c *testCommand) checkFlags() error {
	var faults []error
	for flag := range c.flags {
		if slices.Contains(switches, flag) || slices.Contains(settings, flag) {
			continue
		}
		for _, name := range c.packages {
			faults = append(faults, declares(filepath.Join(c.dir, name), flag))
		}
	}
	_, bounded := c.flags["timeout"]
	if strings.HasSuffix(c.packages[0], "...") && !bounded {
		faults = append(faults, errors.New("all tests take longer than go test waits for, without a -timeout"))
	}
	return errors.Join(faults...)
}

// checkFuzz checks the rules of -fuzz: it takes one function of one package, and needs a
// -fuzztime to end.
func (c *testCommand) checkFuzz(functions map[string]testnames.Functions) error {
	pattern, set := c.flags["fuzz"]
	if !set {
		return nil
	}
	if _, ends := c.flags["fuzztime"]; !ends {
		return errors.New("-fuzz never ends without -fuzztime")
	}
	if len(c.packages) > 1 {
		return errors.New("-fuzz takes one package")
	}
	matched := 0
	for _, name := range functions[c.packages[0]]["Fuzz"] {
		if unmatched, err := testnames.Unmatched(pattern, []string{name}); err == nil && len(unmatched) == 0 {
			matched++
		}
	}
	if matched > 1 {
		return fmt.Errorf("-fuzz %s matches %d fuzz targets, and may match one", pattern, matched)
	}
	return nil
}

// checkPattern returns an error for each alternative of pattern that matches no function, and
// for each package that has no function that pattern matches.
func checkPattern(flag, pattern string, functions map[string]testnames.Functions) error {
	var all []string
	var faults []error
	for name, of := range functions {
		names := of.Run()
		switch flag {
		case "bench":
			names = of["Benchmark"]
		case "fuzz":
			names = of["Fuzz"]
		}
		all = append(all, names...)
		here, err := testnames.Unmatched(pattern, names)
		if err != nil {
			return fmt.Errorf("-%s: %w", flag, err)
		}
		if alternatives, _ := testnames.Unmatched(pattern, nil); len(here) == len(alternatives) {
			faults = append(faults, fmt.Errorf("-%s %s matches nothing in %s", flag, pattern, name))
		}
	}
	unmatched, _ := testnames.Unmatched(pattern, all)
	for _, alternative := range unmatched {
		faults = append(faults, fmt.Errorf("-%s %s matches nothing", flag, alternative))
	}
	return errors.Join(faults...)
}

// skipped reports whether the files in a directory are not checked.
func skipped(path string, entry fs.DirEntry) bool {
	name := entry.Name()
	return name == "testdata" || name == "results" || len(name) > 1 && name[0] == '.' && name != ".."
}
