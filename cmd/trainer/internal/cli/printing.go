package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/console"
)

// Printing makes c, all of whose work is what it prints, fail at once where
// standard output is closed.
func Printing(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := CheckPrinting(c, ">FILE"); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// CheckPrinting refuses to print to a closed standard output. elsewhere is the
// way to name a file.
func CheckPrinting(c *cobra.Command, elsewhere string) error {
	if !console.Closed(c.OutOrStdout()) {
		return nil
	}
	return errors.New("standard output is closed: all that " + c.CommandPath() + " prints would be lost; give " + elsewhere + " (/dev/null to discard it)")
}
