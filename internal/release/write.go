package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
)

// write has every module require that version of the modules of this repository, and go.work
// replace it. It returns the names of the files that it has changed.
func (r *repository) write(version string) (written []string, err error) {
	texts := make(map[string][]byte)
	for _, m := range r.modules {
		for _, required := range m.own() {
			if err := m.file.AddRequire(required.Mod.Path, version); err != nil {
				return nil, err
			}
		}
		if texts[filepath.Join(m.dir, "go.mod")], err = m.file.Format(); err != nil {
			return nil, err
		}
	}
	for _, replaced := range r.work.Replace {
		if at := slices.Index(replaced.Syntax.Token, replaced.Old.Version); at >= 0 && isOwn(replaced.Old.Path) {
			replaced.Syntax.Token[at] = version
		}
	}
	texts["go.work"] = modfile.Format(r.work.Syntax)
	for name, text := range texts {
		file := filepath.Join(r.root, name)
		if old, err := os.ReadFile(file); err != nil {
			return nil, err
		} else if bytes.Equal(old, text) {
			continue
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		written = append(written, filepath.ToSlash(name))
	}
	slices.Sort(written)
	return written, nil
}

// tidy tidies the go.mod and go.sum of each module.
func (r *repository) tidy(ctx context.Context) error {
	var faults []error
	for _, m := range r.modules {
		faults = append(faults, r.tidied(ctx, m, func(name string, text []byte) error {
			return os.WriteFile(name, text, 0o644)
		}))
	}
	return errors.Join(faults...)
}

// tidied calls changed with the go.mod and the go.sum of m, as go mod tidy makes them where the
// other modules of this repository are taken from the tree.
func (r *repository) tidied(ctx context.Context, m *goModule, changed func(name string, text []byte) error) error {
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	name, err := r.alone(m, scratch)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.root, m.dir)
	if _, err := output(ctx, dir, []string{"GOWORK=off"}, "go", "mod", "tidy", "-modfile="+name); err != nil {
		return err
	}
	tidy, err := parse(name, modfile.Parse)
	if err != nil {
		return err
	}
	for _, other := range r.modules {
		if err := tidy.DropReplace(other.path(), ""); err != nil {
			return err
		}
	}
	tidy.Cleanup()
	text, err := tidy.Format()
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(scratch, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(changed(filepath.Join(dir, "go.mod"), text), changed(filepath.Join(dir, "go.sum"), sums))
}

// alone writes a go.mod and a go.sum to dir with which m is built without the workspace, from the
// modules of the tree. It returns the name of the go.mod.
func (r *repository) alone(m *goModule, dir string) (string, error) {
	file, err := parse(filepath.Join(r.root, m.dir, "go.mod"), modfile.Parse)
	if err != nil {
		return "", err
	}
	for _, other := range r.modules {
		if other != m {
			if err := file.AddReplace(other.path(), "", filepath.Join(r.root, other.dir), ""); err != nil {
				return "", err
			}
		}
	}
	text, err := file.Format()
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(r.root, m.dir, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := filepath.Join(dir, "go.mod")
	return name, errors.Join(os.WriteFile(name, text, 0o600), os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
}
