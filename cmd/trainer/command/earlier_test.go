package command

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// A script of before the commands and flags were put in order goes on: each command with each flag is there
// still, or its answer says what to use. The file has a line for each of those commands: its name and flags.
func TestEarlierCommandsAreAnswered(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "earlier.txt"))
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]string{
		"checkpoints export":      "trainer export RUN --out FILE.safetensors",
		"checkpoints import":      "trainer import FILE.safetensors --run RUN",
		"checkpoints delete":      "trainer checkpoints prune RUN --checkpoint ID",
		"checkpoints compact":     "trainer checkpoints prune RUN",
		"checkpoints verify --id": "give --checkpoint ID",
		"plan --measure":          "plan measures without it",
	}
	asked := map[string]bool{}
	answers := func(args ...string) {
		t.Helper()
		now := cmp.Or(gone[strings.Join(args, " ")], gone[strings.Join(args[:2], " ")])
		asked[strings.Join(args, " ")] = true
		var out, errs bytes.Buffer
		code := run(t.Context(), &signals.Stop{}, append(args, "1"), &out, &errs)
		if code != cli.ExitUsage || now == "" || !strings.Contains(errs.String(), " is gone: "+now) {
			t.Errorf("trainer %s: exit code %d, want an answer with %q: %s", strings.Join(args, " "), code, now, &errs)
		}
	}
	for line := range strings.Lines(string(text)) {
		name, flags, _ := strings.Cut(line, ":")
		path := strings.Fields(name)
		c, _, err := newRoot(&signals.Stop{}).Find(path)
		if err != nil || c.Name() != path[len(path)-1] || c.Hidden {
			answers(path...)
			for flag := range strings.FieldsSeq(flags) {
				answers(append(path, "--"+flag)...)
			}
			continue
		}
		for flag := range strings.FieldsSeq(flags) {
			if c.Flags().Lookup(flag) == nil {
				answers(append(path, "--"+flag)...)
			}
		}
	}
	for line := range gone {
		if !asked[line] {
			t.Errorf("trainer %s is not in the file, or is there still", line)
		}
	}
}
