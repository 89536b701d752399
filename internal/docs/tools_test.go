package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// isCommand reports whether text is a command that checkCommand checks.
func isCommand(text string) bool {
	for _, begin := range []string{"make ", ".ci/run", "go get ", "go install ", "sash "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return strings.Contains(text, "go test ") || strings.Contains(text, "go run ")
}

// checkTool checks a command other than go test and go run, given as its words: make has the
// target, .ci/run has the step, go get names a module in dir, and go install a package.
func checkTool(dir string, words []string) error {
	switch {
	case words[0] == "make":
		return checkMake(dir, words[1:])
	case words[0] == ".ci/run" && len(words) > 1 && words[1] != "-l":
		return hasStep(dir, words[1])
	case words[0] == "go" && len(words) == 3 && words[1] == "get":
		return namesModule(dir, words[2])
	case words[0] == "go" && len(words) == 3 && words[1] == "install":
		return isPackage(packageDir(dir, words[2]))
	}
	return nil
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z]+):`)
	ciStep     = regexp.MustCompile(`(?m)^if step "(.*)"; then$`)
	modulePath = regexp.MustCompile(`(?m)^module (\S+)$`)
)

// checkMake returns an error for each argument that is no target of the Makefile in dir, and
// for a STEP that .ci/run does not have.
func checkMake(dir string, args []string) error {
	makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return err
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	var faults []error
	for _, arg := range args {
		if part, step := strings.CutPrefix(arg, "STEP="); step {
			faults = append(faults, hasStep(dir, part))
		} else if !slices.Contains(targets, arg) {
			faults = append(faults, fmt.Errorf("make has no target %s", arg))
		}
	}
	return errors.Join(faults...)
}

// hasStep returns an error if no step of .ci/run has a name that contains part.
func hasStep(dir, part string) error {
	script, err := os.ReadFile(filepath.Join(dir, ".ci", "run"))
	if err != nil {
		return err
	}
	for _, m := range ciStep.FindAllStringSubmatch(string(script), -1) {
		if strings.Contains(m[1], part) {
			return nil
		}
	}
	return fmt.Errorf(".ci/run has no step %q", part)
}

// namesModule returns an error if path does not name the module in dir, or one in it.
func namesModule(dir, path string) error {
	for _, nested := range []string{"", "*", "*/*"} {
		names, err := filepath.Glob(filepath.Join(dir, nested, "go.mod"))
		if err != nil {
			return err
		}
		for _, name := range names {
			mod, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if m := modulePath.FindSubmatch(mod); m != nil && string(m[1]) == path {
				return nil
			}
		}
	}
	return fmt.Errorf("%s is not a module of %s", path, dir)
}

// leadsTo returns an error if the file that a link in a document names does not exist, or has
// no heading for the anchor of the link.
func leadsTo(document, link string) error {
	path, anchor, anchored := strings.Cut(link, "#")
	target := filepath.Join(filepath.Dir(document), path)
	if path == "" {
		target = document
	}
	if !anchored {
		_, err := os.Stat(target)
		return err
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(m[1]) == anchor {
			return nil
		}
	}
	return fmt.Errorf("%s has no heading #%s", target, anchor)
}

var (
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorOf returns the anchor that GitHub makes of a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func TestCheckTool(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { writeFile(t, filepath.Join(dir, name), text) }
	write("go.mod", "module example.com/m\n\ngo 1.25\n")
	write("Makefile", "# loops\nquick: # fast\n\tgo test .\nci:\n\t.ci/run\n")
	write(".ci/run", "if step \"32 bits\"; then\n\tls\nfi\n")
	checkCommands(t, dir, map[string]string{
		"make quick ci":            "",
		`make ci STEP="32 bits"`:   "",
		"make slow":                "make has no target slow",
		"make ci STEP=64":          `.ci/run has no step "64"`,
		".ci/run":                  "",
		".ci/run -l":               "",
		".ci/run bits":             "",
		`.ci/run "32 bytes"`:       `.ci/run has no step "32 bytes"`,
		"go get example.com/m":     "",
		"go get example.com/other": "not a module",
		"go install ./gone":        "no package in ",
		"go install github.com/seed-30da4c49/sash/cmd/sash@latest": "",
		"go install github.com/seed-30da4c49/sash/cmd/gone@latest": "no package in ",
		"go vet . && make slow # no":                               "make has no target slow",
	})
}

func TestLeadsTo(t *testing.T) {
	document := filepath.Join(t.TempDir(), "a.md")
	require.NoError(t, os.WriteFile(document, []byte("# One, two/three\n\n## Four-five\n"), 0o600))
	require.NoError(t, leadsTo(document, "a.md"))
	require.NoError(t, leadsTo(document, "#one-twothree"))
	require.NoError(t, leadsTo(document, "a.md#four-five"))
	require.Error(t, leadsTo(document, "b.md"))
	require.ErrorContains(t, leadsTo(document, "a.md#six"), "has no heading #six")
}
