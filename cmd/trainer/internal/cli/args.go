package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// Args asks for n arguments.
func Args(n int) cobra.PositionalArgs { return ArgsBetween(n, n) }

// ArgsBetween asks for at least least and at most most arguments.
func ArgsBetween(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		needed := fmt.Sprint(least)
		if most > least {
			needed += fmt.Sprintf(" to %d", most)
		}
		return Usagef("%s given, %s needed: %s; see %s --help", text.Count(len(args), "argument"), needed, c.UseLine(), c.CommandPath())
	}
}
