package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A program of another name has it in help and in the advice of messages, but not in
// paths.
func TestRename(t *testing.T) {
	root := &cobra.Command{Use: "trainer", Long: "trainer reads a config."}
	sub := &cobra.Command{Use: "resume RUN", Short: "Go on", Example: "  trainer resume runs/a", Run: func(*cobra.Command, []string) {}}
	sub.Flags().Bool("again", false, "as trainer train does")
	root.AddCommand(sub)
	Rename(root, "waves")
	var out bytes.Buffer
	for _, c := range []*cobra.Command{root, sub} {
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
	}
	Tell(sub, &out, "stopped; continue with: trainer resume /home/trainer/runs/a")
	text := out.String()
	for _, want := range []string{"waves reads a config.", "  waves resume runs/a", "as waves train does", "waves: stopped; continue with: waves resume /home/trainer/runs/a"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
