package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/tsc"
)

func TestRun_SelectsTheSubcommand(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string // each contains this; "" stands for nothing
	}{
		{"replay", []string{"replay", "-limit", "1/s"}, command.OK, "2 events by 1 client", ""},
		{"suggest", []string{"suggest"}, command.OK, "2 events by 1 client", ""},
		{"help of replay", []string{"replay", "-h"}, command.OK, "Usage: sash replay ", ""},
		{"a wrong flag of replay", []string{"replay", "-nonsense"}, command.Usage, "", "sash replay: -h explains the flags\n"},
		{"help", []string{"-h"}, command.OK, "  replay   what limits or policies would have done", ""},
		{"help of check", []string{"check", "-h"}, command.OK, "Usage: sash check ", ""},
		{"check without a file", []string{"check"}, command.Usage, "", "sash check: no FILE"},
		{"help as a word", []string{"help"}, command.OK, "Usage: sash SUBCOMMAND", ""},
		{"help of a subcommand", []string{"help", "suggest"}, command.OK, "Usage: sash suggest ", ""},
		{"version", []string{"version"}, command.OK, version() + "\nclock: " + tsc.Description() + "\n", ""},
		{"version as a flag", []string{"-version"}, command.OK, "sash ", ""},
		{"help of version", []string{"help", "version"}, command.OK, "Usage: sash SUBCOMMAND", ""},
		{"version of something", []string{"version", "-wrong"}, command.Usage, "", "sash: version expects no arguments, got [\"-wrong\"]\n\n" + usageText()},
		{"none", nil, command.Usage, "", "sash: no subcommand\n\n" + usageText()},
		{"unknown", []string{"reply"}, command.Usage, "", "sash: no subcommand \"reply\"\n\n" + usageText()},
		{"help of none", []string{"help", "reply"}, command.Usage, "", "sash: no subcommand \"reply\"\n"},
		{"a flag first", []string{"-json", "suggest"}, command.Usage, "", "sash: -json stands before the subcommand: flags come after it\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, tt.status, run(t.Context(), tt.args, strings.NewReader("0\ta\n0\ta\n"), &stdout, &stderr))
			for got, want := range map[*bytes.Buffer]string{&stdout: tt.stdout, &stderr: tt.stderr} {
				assert.Contains(t, got.String(), want)
				assert.Equal(t, want == "", got.Len() == 0, got.String())
			}
		})
	}
}

// usageText is what tells a user which subcommands there are.
func usageText() string {
	var b strings.Builder
	usage(&b)
	return b.String()
}
