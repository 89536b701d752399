package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// check returns all that stands against a release of that version.
func (r *repository) check(ctx context.Context, version string) error {
	faults := []error{r.checkVersion(ctx, version), r.checkTree(ctx), r.checkChanges(version), r.checkWork()}
	for _, m := range r.modules {
		faults = append(faults, r.checkRequirements(m))
		if m.published {
			faults = append(faults, r.checkFiles(m))
		}
	}
	return errors.Join(faults...)
}

// checkVersion returns an error unless version is one that comes after all that are tagged.
func (r *repository) checkVersion(ctx context.Context, version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is not a version such as v0.1.0", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("%s: the path of a module of that version ends in /%s", version, major)
	}
	tags, err := output(ctx, r.root, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	released := slices.DeleteFunc(strings.Fields(tags), func(tag string) bool { return !semver.IsValid(tag) })
	if len(released) == 0 {
		return nil
	}
	if last := slices.MaxFunc(released, semver.Compare); semver.Compare(version, last) <= 0 {
		return fmt.Errorf("%s does not come after %s, which is released", version, last)
	}
	return nil
}

// checkTree returns an error if git has anything to commit or to add.
func (r *repository) checkTree(ctx context.Context) error {
	changed, err := output(ctx, r.root, nil, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("the tree is not clean:\n%s", strings.TrimSuffix(changed, "\n"))
	}
	return err
}

// checkChanges returns an error if the change log has no section of that version with text.
func (r *repository) checkChanges(version string) error {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `\b.*\n+[^#\s]`)
	if !section.Match(text) {
		return fmt.Errorf("CHANGELOG.md has no section %q, or an empty one", "## "+version)
	}
	return nil
}

// checkWork returns an error for each module that go.work does not use, and for each that it
// uses without there being one.
func (r *repository) checkWork() error {
	var used []string
	for _, use := range r.work.Use {
		used = append(used, filepath.ToSlash(filepath.Clean(use.Path)))
	}
	var faults []error
	for _, m := range r.modules {
		if !slices.Contains(used, m.dir) {
			faults = append(faults, fmt.Errorf("go.work does not use %s", m.dir))
		}
	}
	for _, dir := range used {
		if !slices.ContainsFunc(r.modules, func(m *goModule) bool { return m.dir == dir }) {
			faults = append(faults, fmt.Errorf("go.work uses %s, where git has no module", dir))
		}
	}
	return errors.Join(faults...)
}

// checkRequirements returns an error for each line of the go.mod of m that does not agree with
// the other modules, or that users of m would not have.
func (r *repository) checkRequirements(m *goModule) error {
	name := filepath.ToSlash(filepath.Join(m.dir, "go.mod"))
	var faults []error
	refuse := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(name+": "+format, args...))
	}
	want := rootPath
	if m.dir != "." {
		want += "/" + m.dir
	}
	if m.path() != want {
		refuse("the module there is %s, not %s", want, m.path())
	}
	if root := r.module(rootPath); root != nil && m.file.Go.Version != root.file.Go.Version {
		refuse("go %s, but go %s in the root", m.file.Go.Version, root.file.Go.Version)
	}
	for _, replaced := range m.file.Replace {
		refuse("a replace, of %s, has no effect for users", replaced.Old.Path)
	}
	for _, required := range m.own() {
		version := required.Mod.Version
		switch needed := r.module(required.Mod.Path); {
		case needed == nil:
			refuse("%s is required, and there is no such module", required.Mod.Path)
		case m.published && !needed.published:
			refuse("%s is required, and it is not published", required.Mod.Path)
		case version != r.version():
			refuse("%s %s is required, and %s elsewhere", required.Mod.Path, version, r.version())
		case !r.ties(needed, version):
			refuse("%s %s is required, and go.work does not replace it", required.Mod.Path, version)
		}
	}
	return errors.Join(faults...)
}

// version returns the version of the modules of this repository that the first of them requires.
func (r *repository) version() string {
	for _, m := range r.modules {
		for _, required := range m.own() {
			return required.Mod.Version
		}
	}
	return ""
}

// ties reports whether go.work has the module in this repository for that version of it.
func (r *repository) ties(m *goModule, version string) bool {
	for _, replaced := range r.work.Replace {
		if replaced.Old.Path == m.path() && replaced.Old.Version == version {
			return filepath.ToSlash(filepath.Clean(replaced.New.Path)) == m.dir
		}
	}
	return false
}

// checkFiles returns an error if m has no license, other than the root's, or no documentation.
func (r *repository) checkFiles(m *goModule) error {
	dir := filepath.Join(r.root, m.dir)
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var faults []error
	if own, err := os.ReadFile(filepath.Join(dir, "LICENSE")); err != nil || !bytes.Equal(own, license) {
		faults = append(faults, fmt.Errorf("%s: LICENSE is missing, or not the root's", m.path()))
	}
	documented, err := hasDoc(dir)
	if err == nil && !documented {
		err = fmt.Errorf("%s: the package has no doc comment", m.path())
	}
	return errors.Join(append(faults, err)...)
}

// hasDoc reports whether a Go file in dir documents its package.
func hasDoc(dir string) (bool, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			return true, nil
		}
	}
	return false, nil
}
