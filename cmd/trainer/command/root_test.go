package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

func TestEveryCommandHasAnExample(t *testing.T) {
	root := newRoot(&signals.Stop{})
	eachShown(root, func(c *cobra.Command) {
		if c.Short == "" || !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: no example that calls it, or no description", c.CommandPath())
		}
	})
	for _, name := range []string{"train", "resume", "eval", "predict", "plan", "configs", "devices", "checkpoints", "bench", "version"} {
		if c, _, err := root.Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("there is no command %s", name)
		}
	}
}

func TestTrainHelpListsItsFlags(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), &signals.Stop{}, []string{"train", "--help", "--all"}, &out, &errs); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, flag := range []string{"set", "devices", "threads", "run", "resume", "fresh", "init", "max-steps", "report", "assert-resident", "dump", "quiet"} {
		if !strings.Contains(out.String(), "--"+flag+" ") {
			t.Errorf("trainer train --help does not list --%s", flag)
		}
	}
}
