package replay_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// These are the types of testdata/printed that it reads and writes.
type (
	printedProgram struct {
		Policy   int
		Enforced bool
		Requests []printedRequest
	}
	printedRequest struct {
		At                   int64
		Remote               string
		Forwarded            []string
		Method, Target, Host string
		Agent, Referer       string
		Fields               []string
		Cost, Size           int64
	}
	printedResult struct {
		Limits     []sash.Limit
		Outcomes   []byte
		Identities []string
		Fault      string
	}
)

// completed returns the Go code of a policy as an operator completes it, with other code in place of
// each "…".
func completed(code string) string {
	var b strings.Builder
	fields := 0
	for line := range strings.Lines(code) {
		code, remark, _ := strings.Cut(line, " //")
		if strings.HasPrefix(code, "\tCost:") {
			code = strings.Replace(code, "…", "cost", 1)
		}
		for strings.Contains(code, "…") {
			code = strings.Replace(code, "…", fmt.Sprintf("field(%d)", fields), 1)
			fields++
		}
		if remark != "" {
			code += " //" + remark
		}
		b.WriteString(code)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A printer collects policies, and makes one program of them.
type printer struct {
	numbers map[string]int // by the code of a policy
	source  bytes.Buffer
}

func newPrinter() *printer {
	p := &printer{numbers: map[string]int{}}
	p.source.WriteString("package main\n\nimport (\n\t\"net/http\"\n\t\"net/netip\"\n\t\"time\"\n\n\t\"github.com/seed-30da4c49/sash\"\n\t\"github.com/seed-30da4c49/sash/httplimit\"\n)\n\n" +
		"var (\n\t_ sash.Limit\n\t_ httplimit.Policy\n\t_ *http.Request\n\t_ netip.Prefix\n\t_ time.Duration\n)\n\nfunc init() {\n")
	return p
}

// add returns the number of a policy. Programs of equal policies share it.
func (p *printer) add(code string) int {
	n, known := p.numbers[code]
	if !known {
		n = len(p.numbers)
		p.numbers[code] = n
		fmt.Fprintf(&p.source, "\tpolicies = append(policies, func() httplimit.Policy {\n\t\treturn %s\n\t})\n", code)
	}
	return n
}

// build compiles the policies and the command that runs them, without optimizations, and returns
// the file of the program. The generated file is laid over the directory of the command, so that
// it is built as part of this module.
func (p *printer) build(dir string) (string, error) {
	command, err := filepath.Abs(filepath.Join("testdata", "printed"))
	if err != nil {
		return "", err
	}
	source, overlay, binary := filepath.Join(dir, "policies.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "printed.exe")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(command, "policies.go"): source}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(source, []byte(p.source.String()+"}\n"), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-gcflags=-N -l", "-overlay", overlay, "-o", binary, "./testdata/printed")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the printed policies do not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// runPrinted runs programs by the binary, and returns the result of each.
func runPrinted(binary string, programs []printedProgram) ([]printedResult, error) {
	command := exec.Command(binary)
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	written := make(chan error, 1)
	go func() {
		encoder := gob.NewEncoder(in)
		var err error
		for i := range programs {
			err = errors.Join(err, encoder.Encode(&programs[i]))
		}
		written <- errors.Join(err, in.Close())
	}()
	if err := errors.Join(command.Wait(), <-written); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	var results []printedResult
	for decoder := gob.NewDecoder(&out); ; {
		var r printedResult
		if err := decoder.Decode(&r); err == io.EOF {
			return results, nil
		} else if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
}

// shellWords returns the words of command lines, as a shell takes them apart.
func shellWords(lines []string) ([][]string, error) {
	script := "w() { printf '%s\\000' \"$@\"; printf '\\001\\000'; }\n"
	for _, line := range lines {
		script += "w " + line + "\n"
	}
	command := exec.Command("sh")
	command.Stdin = strings.NewReader(script)
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("sh: %w", err)
	}
	var all [][]string
	var words []string
	for word := range strings.SplitSeq(string(out), "\x00") {
		if word == "\x01" {
			all, words = append(all, words), nil
		} else {
			words = append(words, word)
		}
	}
	if len(all) != len(lines) {
		return nil, fmt.Errorf("sh has read %d of %d commands", len(all), len(lines))
	}
	return all, nil
}
