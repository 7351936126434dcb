package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

func resumeCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Continue a run from its newest checkpoint",
		Long:    "Continue the run in a folder from its newest whole checkpoint, bit for bit, with the config saved there. Other devices may take over. A run that is finished goes on with more --epochs.",
		Example: "  trainer resume runs/digits\n  trainer resume runs/digits --devices cpu:2 --threads 2\n  trainer resume runs/digits --epochs 60",
		Args:    cli.Args(1),
	}
	cf, t := runs.AddConfigFlags(c), addTraining(c, stop)
	cf.AddTrainingFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := cf.LoadRun(c, args[0])
		if err != nil {
			return err
		}
		t.options.Dir, t.options.Resume = args[0], true
		return t.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), cfg)
	}
	return c
}
