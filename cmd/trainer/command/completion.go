package command

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// shells are the shells that can complete commands, with what writes the script of one.
var shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        (*cobra.Command).GenZshCompletion,
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

func completionCommand() *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Long: "Print a script for a shell. With it, the Tab key completes commands and flags, shipped configs and YAML files, run folders, checkpoints, and the keys of --set and --vary.\n" +
			"Load the script in each new shell; docs/cli.md says how for each one.",
		Example:   "  source <(trainer completion bash)\n  trainer completion fish > ~/.config/fish/completions/trainer.fish",
		ValidArgs: names,
		Args:      cli.Args(1),
		RunE: func(c *cobra.Command, args []string) error {
			script, ok := shells[args[0]]
			if !ok {
				return cli.Usagef("%s is no shell that commands can be completed in; give bash, zsh, fish or powershell", args[0])
			}
			return script(c.Root(), c.OutOrStdout())
		},
	}
}
