package command

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
)

func trainCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:   "train CONFIG|NAME",
		Short: "Train a model",
		Long: "Train a model from a config file, or from a shipped config by its name (trainer configs list).\n" +
			"\n" +
			"The run folder is runs/NAME. Once that run is finished, the next one takes runs/NAME-2, and so on. An unfinished run goes on with --resume or is deleted with --fresh.\n" +
			"\n" +
			"Ctrl-C finishes the step, saves, and exits with 75. SIGUSR1 saves and goes on.",
		Example: "  trainer train digits\n  trainer train my.yaml --epochs 3 --devices cpu:2 --run runs/try1\n  trainer train shakespeare --devices cpu:2 --threads 4\n  trainer train my.yaml --overfit-batch",
		Args:    oneConfig,
	}
	cf, t := runs.AddConfigFlags(c), addTraining(c, stop)
	cf.AddTrainingFlags(c)
	cli.Rare(c, "metrics", "progress", "schedule")
	o := &t.options
	c.Flags().StringVar(&o.Dir, "run", "", "train in the folder `DIR` (default: runs/NAME, or the next free one)")
	resume := addResumeFlag(c)
	c.Flags().BoolVar(&o.Fresh, "fresh", false, "delete the run that the folder holds, and begin anew")
	c.Flags().StringVar(&o.Init, "init", "", "begin with the weights of a safetensors `FILE[:PREFIX]`, found by name; some left out: '{file: FILE, skip: [head.*]}'")
	addOverfit(c, &t.overfit)
	run := func(c *cobra.Command, cfg *configs.Config, failed error) (err error) {
		if err = failed; err == nil {
			err = t.checkOverfit(c)
		}
		if err = t.agree(c.Context(), "its config", err); err != nil {
			return err
		}
		if t.overfit > 0 && o.Dir == "" {
			if o.Dir, err = os.MkdirTemp("", "berth-overfit-"); err != nil {
				return err
			}
			t.removed = true
			defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
		}
		if err := t.chooseFolder(c.Context(), cfg.Name, resume.mode); err != nil {
			return err
		}
		return t.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), cfg)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, failed := cf.Load(c, args[0])
		if failed == nil {
			t.timeout = cfg.Distributed.Timeout
		}
		return t.together(c, func() error { return run(c, cfg, failed) })
	}
	return c
}
