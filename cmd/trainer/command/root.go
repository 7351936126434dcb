package command

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/charts"
	"github.com/berth-ml/berth/cmd/trainer/internal/checkpoints"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/internal/build"
)

// newRoot is the command trainer. Commands that save tell stop.
func newRoot(stop *signals.Stop) *cobra.Command {
	root := &cobra.Command{
		Use:           "trainer",
		Short:         "Train models with weights that stay where they are used",
		Long:          "Train a model from a YAML config. It is split over the devices that there are; the weights are copied in once and stay there.",
		Example:       "  trainer train digits\n  trainer plan shakespeare --devices cpu:2",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true // completionCommand takes its place
	root.SetFlagErrorFunc(cli.FlagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		return cmp.Or(cli.CheckAll(c), cli.CheckPaths(c), checkRanks(c, stop))
	}
	cli.Group(root)
	cli.ShowHelp(root)
	addVersionFlag(root)
	for _, g := range commandGroups(stop) {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	checkHelpTopics(root)
	completing(root)
	return root
}

// commandGroup is commands that help lists together.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// resting lists the queued jobs that wait or are paused.
func resting(ctx context.Context) ([]overview.Resting, error) {
	return queued.Resting(ctx, build.Revision())
}

// reserved says which queued job's a folder is.
func reserved(ctx context.Context) runs.Reserved { return queued.Reserved(ctx, build.Revision()) }

// commandGroups are the commands in the order of help.
func commandGroups(stop *signals.Stop) []commandGroup {
	return []commandGroup{
		{"Before training", []*cobra.Command{cli.Printing(dataCommand()), newCommand(stop), tokenizerCommand(), configsCommand(), cli.Printing(planCommand(stop))}},
		{"Train", []*cobra.Command{trainCommand(stop), resumeCommand(stop)}},
		{"Queue trainings", []*cobra.Command{queued.Up(stop, build.Revision()), queued.Submit(stop, build.Revision()), queued.Sweep(stop, build.Revision()), queued.Jobs(build.Revision()), queued.Down(build.Revision())}},
		{"Look at runs", []*cobra.Command{overview.Command(stop, resting, reserved), uiCommand(), charts.Command(), checkpoints.Command()}},
		{"Use a trained model", []*cobra.Command{cli.Printing(evalCommand()), predictCommand(), cli.Printing(generateCommand()), serveCommand(stop)}},
		{"Bring in, take out", []*cobra.Command{importCommand(), exportCommand()}},
		{"This machine and program", []*cobra.Command{cli.Printing(devicesCommand()), cli.Printing(benchCommand(stop)), completionCommand(), cli.Printing(versionCommand())}},
	}
}

// checkHelpTopics makes help about an unknown command a mistake.
func checkHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("BUG: there is no command help: " + err.Error())
	}
	help.Use, help.Example = "help [COMMAND]", "  trainer help train"
	help.Short, help.Long = "Show the help of a command", "Show the help of a command, as COMMAND --help does."
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		if err != nil {
			return cli.Usage(err)
		}
		if c.HasSubCommands() && len(rest) > 0 {
			if err := c.ValidateArgs(rest); err != nil {
				return err
			}
		}
		return c.Help()
	}
}
