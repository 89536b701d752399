package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

const rootPath = "github.com/seed-30da4c49/sash"

// A repository is a work tree of git with one module in its root and others below.
type repository struct {
	root    string
	modules []*goModule // by directory, the root first
	work    *modfile.WorkFile
}

// A goModule is one module of the repository.
type goModule struct {
	dir       string // below the root, with slashes; "." for the root
	file      *modfile.File
	published bool
}

func (m *goModule) path() string { return m.file.Module.Mod.Path }

// tag returns the tag of git by which the go command finds a version of the module.
func (m *goModule) tag(version string) string { return path.Join(m.dir, version) }

// own returns the requirements of m that are modules of this repository.
func (m *goModule) own() (own []*modfile.Require) {
	for _, required := range m.file.Require {
		if isOwn(required.Mod.Path) {
			own = append(own, required)
		}
	}
	return own
}

func isOwn(path string) bool { return path == rootPath || strings.HasPrefix(path, rootPath+"/") }

// open reads the repository that contains dir: its go.work, and each go.mod that git tracks.
func open(ctx context.Context, dir string) (*repository, error) {
	top, err := output(ctx, dir, nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &repository{root: strings.TrimSpace(top)}
	if r.work, err = parse(filepath.Join(r.root, "go.work"), modfile.ParseWork); err != nil {
		return nil, err
	}
	tracked, err := output(ctx, r.root, nil, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(tracked) {
		file, err := parse(filepath.Join(r.root, name), modfile.Parse)
		if err != nil {
			return nil, err
		}
		if file.Module == nil {
			return nil, fmt.Errorf("%s names no module", name)
		}
		r.modules = append(r.modules, &goModule{path.Dir(name), file, !withheld(file.Module)})
	}
	slices.SortFunc(r.modules, func(a, b *goModule) int { return strings.Compare(a.dir, b.dir) })
	return r, nil
}

func parse[F any](name string, parse func(string, []byte, modfile.VersionFixer) (F, error)) (F, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		var none F
		return none, err
	}
	return parse(name, text, nil)
}

// withheld reports whether a comment above the module line says that the module is not published.
func withheld(m *modfile.Module) bool {
	return slices.ContainsFunc(m.Syntax.Before, func(c modfile.Comment) bool {
		return strings.HasPrefix(c.Token, "// Not published")
	})
}

// module returns the module of that path, or nil.
func (r *repository) module(path string) *goModule {
	for _, m := range r.modules {
		if m.path() == path {
			return m
		}
	}
	return nil
}

// commandDir is the module of the command, whose tag starts the workflow that makes the binaries.
const commandDir = "cmd/sash"

// inOrder returns the published modules, each after those it requires, and the command after all.
func (r *repository) inOrder() (order []*goModule) {
	var add func(m *goModule)
	add = func(m *goModule) {
		if !m.published || slices.Contains(order, m) {
			return
		}
		for _, required := range m.own() {
			add(r.module(required.Mod.Path))
		}
		order = append(order, m)
	}
	for _, last := range []bool{false, true} {
		for _, m := range r.modules {
			if (m.dir == commandDir) == last {
				add(m)
			}
		}
	}
	return order
}

// output runs a program in dir with more variables in its environment, and returns what it
// prints to stdout.
func output(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
