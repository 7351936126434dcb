package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Group makes c a command that only holds others. Alone it prints its help; any
// other word is a mistake.
func Group(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := "see " + c.CommandPath() + " --help"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("did you mean %q?", near[0])
		}
		return Usagef("%s has no command %q; %s", c.CommandPath(), args[0], hint)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}
