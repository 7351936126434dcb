package cli

import "github.com/spf13/cobra"

// Retired is a command that is gone. Whoever calls it is told what to do now.
func Retired(name, now string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error { return Usagef("%s is gone: %s", c.CommandPath(), now) },
	}
}

// retiredFlags says what to do in place of a flag that is gone.
var retiredFlags = map[string]string{
	"id":      "give --checkpoint ID",
	"measure": "plan measures without it, and with --by-arithmetic does not",
}
