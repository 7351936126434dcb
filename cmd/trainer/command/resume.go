package command

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		unknown, ok := errors.AsType[*pflag.NotExistError](err)
		switch {
		case ok && unknown.GetSpecifiedName() == "last":
			return cli.Usagef("--last: resume always goes on from the newest checkpoint; leave it out")
		case ok && slices.Contains([]string{"best", "checkpoint"}, unknown.GetSpecifiedName()):
			return cli.Usagef("--%s: resume goes on from the newest checkpoint; to go on from another, copy the run folder, and delete the newer ones of the copy: trainer checkpoints prune COPY --checkpoint ID", unknown.GetSpecifiedName())
		}
		return cli.FlagError(c, err)
	})
	run := func(c *cobra.Command, args []string) error {
		cfg, err := t.loadRun(c, cf, args[0])
		if err != nil {
			return err
		}
		t.options.Dir, t.options.Resume = args[0], true
		return t.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), cfg)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return t.together(c, func() error { return run(c, args) })
	}
	return c
}
