package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// TestTablesFit: no line is wider than a terminal of 80 columns, also with long names,
// many stages and little memory. Names are whole where standard output is no terminal.
func TestTablesFit(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("name", 15)
	layers := ""
	for i := range 5 {
		layers += fmt.Sprintf("    - {type: dense, name: %s_%d, units: 64, activation: relu}\n", long, i)
	}
	config := filepath.Join(dir, "long.yaml")
	text := "name: long\ndata: digits\nmodel:\n  layers:\n    - {type: flatten}\n" + layers + "    - {type: dense, units: 10}\ntrain: {epochs: 1, microbatches: 8, reduction: tree}\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "runs", "a"), filepath.Join(dir, "runs", long)
	for _, args := range [][]string{
		{"train", config, "--run", a, "--quiet"},
		{"train", config, "--run", b, "--quiet", "--set", "optimizer.lr=0.05"},
	} {
		commandText(t, args...)
	}
	for _, args := range [][]string{
		{"plan", config, "--devices", "cpu:4"},
		{"plan", config, "--devices", "cpu:4", "--device-memory", "80%"},
		{"plan", config, "--devices", "cpu:8", "--set", "partition.replicas=4"},
		{"plan", config, "--layers"},
		{"plan", config, "--clusters"},
		{"plan", config, "--compare", "--devices", "cpu:2"},
		{"data", "digits"},
		{"devices"}, {"devices", "--kernels"}, {"configs", "list"}, {"configs", "show", "digits"}, {"configs", "reference"}, {"version"},
		{"eval", a},
		{"checkpoints", "ls", a}, {"checkpoints", "inspect", b},
		{"runs", "ls", filepath.Dir(a)}, {"runs", "show", b}, {"runs", "compare", a, b, a, b},
	} {
		if text := commandText(t, args...); strings.Contains(text, "…n") {
			t.Errorf("trainer %s in a pipe: a name is cut in\n%s", strings.Join(args, " "), text)
		}
		if terminalText != nil {
			fits(t, args, terminalText(t, args...))
		}
	}
}

// terminalText is commandText of a command that prints to a terminal of 80 columns; nil on
// systems where the tests open none.
var terminalText func(t *testing.T, args ...string) string

// fits wants no line of a command's text to fill a terminal, but one whose last word alone
// is too long.
func fits(t *testing.T, args []string, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		words := strings.Fields(line)
		if n := utf8.RuneCountInString(line); n > 79 && utf8.RuneCountInString(words[len(words)-1]) < 40 {
			t.Errorf("trainer %s: %d characters: %s", strings.Join(args, " "), n, line)
		}
	}
}

// commandText is the standard output of a command that must succeed.
func commandText(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), &signals.Stop{}, args, &out, &errs); code != cli.ExitOK {
		t.Fatalf("trainer %q: exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}
