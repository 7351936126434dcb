package cli

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/internal/units"
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
		if most == math.MaxInt {
			needed += " or more"
		} else if most > least {
			needed += fmt.Sprintf(" to %d", most)
		}
		return Usagef("%s given, %s needed: %s; %ssee %s --help", units.Count(len(args), "argument"), needed, c.UseLine(), equalsSign(c, args), c.CommandPath())
	}
}

// equalsSign says how a flag that may stand alone gets a value, where such a flag
// stands alone and its value may be the last argument; "" elsewhere.
func equalsSign(c *cobra.Command, args []string) (advice string) {
	if len(args) == 0 {
		return ""
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" && f.Value.String() == f.NoOptDefVal {
			advice += fmt.Sprintf("a value of --%[1]s follows an equals sign, --%[1]s=%[2]s; ", f.Name, args[len(args)-1])
		}
	})
	return advice
}

// Group makes c a command that only holds others. Alone it prints its help; an
// unknown subcommand is a mistake.
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
		if c.HasParent() {
			return Usagef("%s has no command %q; %s", c.Name(), args[0], hint)
		}
		return Usagef("there is no command %q; %s", args[0], hint)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}
