package command

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/internal/golden"
)

// eachShown calls f with the commands that help lists, and with root.
func eachShown(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			eachShown(sub, f)
		}
	}
}

const (
	pipeWidth = 80 // columns of help that goes to no terminal
	mostFlags = 15 // that help lists by itself
)

// TestHelp: the help of each command is as in testdata/help, with all flags where some are
// left out, and fits 80 columns.
func TestHelp(t *testing.T) {
	eachShown(newRoot(&signals.Stop{}), func(c *cobra.Command) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		text := helpOf(t, args...)
		if n := strings.Count(text, "\n  --") + strings.Count(text, "\n  -o"); n > mostFlags {
			t.Errorf("trainer %s lists %d flags, more than %d", strings.Join(args, " "), n, mostFlags)
		}
		if all := helpOf(t, append(args, "--all")...); all != text {
			text += fmt.Sprintf("\n$ %s --help --all\n%s", c.CommandPath(), all)
		}
		golden.Check(t, filepath.Join("testdata", "help", strings.ReplaceAll(c.CommandPath(), " ", "-")+".txt"), text)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > pipeWidth {
				t.Errorf("the help of %s has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
	})
}

// TestHelpFits: help fits terminals of other widths, examples too.
func TestHelpFits(t *testing.T) {
	eachShown(newRoot(&signals.Stop{}), func(c *cobra.Command) {
		for _, width := range []int{60, 120} {
			for line := range strings.Lines(cli.Help(c, width, true)) {
				line = strings.TrimRight(line, "\n")
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: a line of %d characters at a width of %d: %s", c.CommandPath(), n, width, line)
				}
			}
		}
	})
}

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), &signals.Stop{}, args, &out, &errs); code != cli.ExitOK {
		t.Fatalf("trainer %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}
