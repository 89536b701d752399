package suggest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/httplimit/policyfile" // sets policytree.Parse, too
	"github.com/seed-30da4c49/sash/internal/policytree"
)

// A policyFile is the file of -policy, and what it had when the command began.
type policyFile struct {
	path  string
	given string                      // the path as it was given
	data  []byte                      // nil: there is no file
	names []string                    // of its policies
	link  func(from, to string) error // as os.Link
}

// openPolicyFile reads the file at path, to which policies can be added.
func openPolicyFile(path string) (*policyFile, error) {
	if ext := filepath.Ext(path); !strings.EqualFold(ext, ".yaml") && !strings.EqualFold(ext, ".yml") {
		return nil, fmt.Errorf("-policy: %s: want a name that ends in .yaml, which is what suggest writes", path)
	}
	f := &policyFile{path: target(path), given: path, link: os.Link} // not the link, which would be replaced
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("-policy: %w", err)
	}
	f.data = data
	list, err := policiesIn(path, data)
	if err == nil {
		err = policies.Faults(path, data)
	}
	if err != nil {
		return nil, fmt.Errorf("-policy: %w", err)
	}
	for _, p := range list {
		if name := p.Field("name"); name != nil {
			f.names = append(f.names, name.Text)
		}
	}
	return f, nil
}

// target returns the path of the file that links lead to.
func target(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}

// lacks returns an error if the file has a policy of one of these names.
func (f *policyFile) lacks(names ...string) error {
	for _, name := range names {
		if slices.Contains(f.names, name) {
			return fmt.Errorf("-policy: %s has a policy %q: nothing is overwritten; give another -name", f.given, name)
		}
	}
	return nil
}

// policiesIn returns the list of policies in a file, which may name functions of a program.
func policiesIn(path string, data []byte) ([]*policytree.Node, error) {
	file, err := policytree.Parse(path, data)
	if err != nil {
		return nil, err
	}
	policies := file.Field("policies")
	if policies == nil || len(policies.Items) == 0 {
		return nil, fmt.Errorf("%s: it has no policies", path)
	}
	return policies.Items, nil
}

// add writes the file with more policies. All else stays as it is. The file is left alone if it would not load
// then. It is left alone, too, if it is not what it was when the command began: the policies were checked
// against what it was.
func (f *policyFile) add(added []string) error {
	text, err := f.with(added)
	if err != nil {
		return fmt.Errorf("%s: %w; add it yourself:\n%s", f.path, err, strings.Join(added, ""))
	}
	if err := policies.Faults(f.given, text); err != nil {
		return fmt.Errorf("-policy: %s would not load with what is added, so nothing is written: %w\nIt would add:\n%s",
			f.given, err, strings.Join(added, ""))
	}
	if f.data == nil {
		return f.create(text)
	}
	return f.replace(text)
}

// create makes the file unless there is one by now: all at once, if the file system has hard links. Its mode is what
// the umask leaves.
func (f *policyFile) create(text []byte) error {
	temporary := fmt.Sprintf("%s.%x", f.path, rand.Uint64())
	err := writeNew(temporary, text)
	var removal error
	if err == nil {
		err = f.link(temporary, f.path) // unlike a renaming, it replaces nothing
		removal = os.Remove(temporary)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = writeNew(f.path, text)
	}
	if errors.Is(err, fs.ErrExist) {
		err = f.changed(nil)
	}
	return errors.Join(err, removal)
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// replace gives the file another content, all at once. Its mode stays.
func (f *policyFile) replace(text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // it is gone, unless something fails
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	// Look at the file as late as possible. An edit between here and the renaming would be lost.
	mode, err := f.checkUnchanged()
	if err != nil {
		return err
	}
	if err := os.Chmod(temporary.Name(), mode.Perm()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), f.path)
}

// checkUnchanged returns the file's mode, or an error if its content or its links have changed since the command
// began.
func (f *policyFile) checkUnchanged() (fs.FileMode, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return 0, f.changed(err)
	}
	now, err := os.ReadFile(f.path)
	if err != nil || !bytes.Equal(now, f.data) || target(f.given) != f.path {
		return 0, f.changed(err)
	}
	return info.Mode(), nil
}

// changed returns the error for a file that is not what it was when the command began. The reason may be nil.
func (f *policyFile) changed(reason error) error {
	err := fmt.Errorf("-policy: %s has changed since the command began; run it again", f.given)
	if reason != nil {
		err = fmt.Errorf("%w: %w", err, reason)
	}
	return err
}

// with returns the content of the file with more policies at the end.
func (f *policyFile) with(policies []string) ([]byte, error) {
	added := strings.Join(policies, "")
	if f.data == nil {
		return []byte("policies:\n" + added), nil
	}
	text := f.data
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(bytes.Clone(text), '\n')
	}
	text = append(bytes.Clone(text), indentedAs(text, added)...)
	before, err := policiesIn(f.path, f.data)
	if err != nil {
		return nil, err
	}
	// The list may not be the last of the file, or not be in lines. Then what was appended is no part of it.
	after, err := policiesIn(f.path, text)
	if err != nil || len(after) != len(before)+len(policies) || !reflect.DeepEqual(after[:len(before)], before) {
		return nil, errors.New("the policy cannot be appended, since the list of policies is not the last thing in the file, in lines that begin with a dash")
	}
	return text, nil
}

// indentedAs returns policies with the indentation that the first one in the file has.
func indentedAs(text []byte, policies string) string {
	indent, begun := "  ", false
	for line := range strings.Lines(string(text)) {
		item := strings.TrimLeft(line, " ")
		if begun && strings.HasPrefix(item, "-") {
			indent = line[:len(line)-len(item)]
			break
		}
		begun = begun || strings.HasPrefix(line, "policies:")
	}
	var b strings.Builder
	for line := range strings.Lines(policies) {
		b.WriteString(indent + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}

// fileFaults returns why the policy that would be suggested cannot stand in a file: what a file cannot say.
func (o *options) fileFaults() error {
	var faults []error
	for _, f := range o.Key {
		if _, known := keyOfFile[f.Name()]; !known {
			faults = append(faults, fmt.Errorf("-policy: a file has no key for %s of -key: want addr, agent, referer or none; without -policy, Go code is printed", f.Name()))
		}
	}
	if o.Cost != nil && !o.settles() {
		faults = append(faults, fmt.Errorf("-policy: a file cannot tell the cost %s, only size; without -policy, Go code is printed", o.Cost))
	}
	given := o.Selection
	given.Where = slices.DeleteFunc(slices.Clone(given.Where), func(w traffic.Where) bool { return o.groupedBy(w.Field) }) // its groups tell
	for _, condition := range scopeOf(&given).unsaid {
		faults = append(faults, fmt.Errorf("-policy: a file cannot say for which requests %s holds: want one method, host and path, and any status", condition))
	}
	for _, by := range o.by {
		for _, f := range by.Fields() {
			if !slices.Contains([]string{traffic.Method, traffic.Host, traffic.Path, traffic.Status}, f.Name) {
				faults = append(faults, fmt.Errorf("-policy: a file cannot say for which requests a group of %s is: want method, host, path and status in -by", f.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// groupedBy reports whether each -by has the field of that name, so that each group tells its values.
func (o *options) groupedBy(field string) bool {
	return len(o.by) > 0 && !slices.ContainsFunc(o.by, func(by traffic.By) bool { return by.Parts(field) < 0 })
}

// fileText returns the suggested policy as a policy file has it, or why there is none.
func (o *options) fileText(f *findings) (string, error) {
	if f.Policy == nil {
		return "", errors.New("no limit is suggested")
	}
	if unsaid := scopeOf(&o.Selection).unsaid; len(unsaid) > 0 {
		return "", fmt.Errorf("a file cannot say for which requests %s holds", unsaid[0])
	}
	text := policyText(o.policyName(), f.Policy.Limits, f.key, o)
	if _, err := policyfile.Parse(o.policy, []byte("policies:\n"+text)); err != nil {
		return "", err
	}
	return text, nil
}

// keyOfFile is what fields of a log are as keys of a policy file. Requests without such a header are one client's.
var keyOfFile = map[string]string{
	traffic.Addr: "", // its options tell
	"agent":      "{first-of: [{header: User-Agent}, everyone]}",
	"referer":    "{first-of: [{header: Referer}, everyone]}",
}

// policyText returns the shadow policy as a policy file has it. It tells clients apart, and counts, as was
// measured.
func policyText(name string, limits []sash.Limit, key traffic.Key, o *options) string {
	c := scopeOf(&o.Selection)
	var b strings.Builder
	field := func(name, value string) { fmt.Fprintf(&b, "    %s: %s\n", name, value) }
	fmt.Fprintf(&b, "  - name: %s\n", strconv.Quote(name))
	if c.pattern != "" {
		field("pattern", strconv.Quote(c.pattern))
	}
	var texts []string
	for _, l := range limits {
		texts = append(texts, textOf(l))
	}
	field("limits", "["+strings.Join(texts, ", ")+"]")
	field("key", keyText(key, o)+o.proxyRemark(key))
	if len(c.statuses) > 0 {
		field("charge", "["+strings.Join(c.statuses, ", ")+"]")
	}
	if o.settles() {
		field("unit", "content-bytes")
		field("settle", "bytes # known afterwards: the request that exceeds a limit is served")
	}
	for _, remark := range c.remarks {
		fmt.Fprintf(&b, "    # %s\n", remark)
	}
	field("shadow", "true")
	return b.String()
}

// proxyRemark returns a remark for a key by addresses, if no proxy is trusted.
func (o *options) proxyRemark(key traffic.Key) string {
	if len(o.Trust) > 0 || !key.Has(traffic.Addr) {
		return ""
	}
	return " # behind a proxy: {address: {trust-proxies: [10.0.0.0/8]}}"
}

// keyText returns the key of a policy as a policy file has it.
func keyText(key traffic.Key, o *options) string {
	var parts []string
	for _, f := range key {
		if f.Name() != traffic.Addr {
			parts = append(parts, keyOfFile[f.Name()])
			continue
		}
		bits4, bits6, _ := f.Networks()
		var options []string
		if len(o.Trust) > 0 {
			var networks []string
			for _, n := range o.Trust {
				networks = append(networks, strconv.Quote(n.String()))
			}
			options = append(options, "trust-proxies: ["+strings.Join(networks, ", ")+"]")
		}
		if bits4 != 32 {
			options = append(options, fmt.Sprint("ipv4-prefix: ", bits4))
		}
		if bits6 != 64 {
			options = append(options, fmt.Sprint("ipv6-prefix: ", bits6))
		}
		if len(options) == 0 {
			parts = append(parts, "address")
		} else {
			parts = append(parts, "{address: {"+strings.Join(options, ", ")+"}}")
		}
	}
	switch len(parts) {
	case 0:
		return "everyone"
	case 1:
		return parts[0]
	}
	return "{join: [" + strings.Join(parts, ", ") + "]}"
}
