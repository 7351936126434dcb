package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/charts"
	"github.com/berth-ml/berth/cmd/trainer/internal/checkpoints"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

// newRoot is the command trainer. Commands that save tell stop.
func newRoot(stop *signals.Stop) *cobra.Command {
	root := &cobra.Command{
		Use:   "trainer",
		Short: "Train models with weights that stay where they are used",
		Long: "trainer reads a YAML config, builds the model, splits it over the devices it finds,\n" +
			"copies the weights in once and trains with everything resident there.",
		Example:       "  trainer train digits\n  trainer plan shakespeare --devices cpu:2",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(cli.FlagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return cli.CheckPaths(c) }
	cli.Group(root)
	cli.ShowOptional(root)
	addVersionFlag(root)
	root.AddCommand(trainCommand(stop), resumeCommand(stop), cli.Printing(evalCommand()), predictCommand(), cli.Printing(planCommand()), cli.Printing(dataCommand()),
		configsCommand(), cli.Printing(devicesCommand()), checkpoints.Command(), charts.Command(), overview.Command(), cli.Printing(benchCommand()),
		tokenizerCommand(), importCommand(), exportCommand(), cli.Printing(versionCommand()))
	root.AddCommand(cli.Printing(generateCommand()), serveCommand())
	checkHelpTopics(root)
	return root
}

// checkHelpTopics makes help about an unknown command a mistake.
func checkHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("BUG: there is no command help: " + err.Error())
	}
	help.Example = "  trainer help train"
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		if err != nil {
			return cli.Usage(err)
		}
		if c.HasSubCommands() {
			if err := c.ValidateArgs(rest); err != nil {
				return err
			}
		}
		c.InitDefaultHelpFlag()
		return c.Help()
	}
}
