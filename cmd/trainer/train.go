package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

func trainCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:   "train CONFIG|NAME",
		Short: "Train a model",
		Long: "Train a model from a config file, or from a shipped config by its name (trainer configs list).\n" +
			"Ctrl-C finishes the step, saves, and exits with 75; so do SIGTERM and a closed terminal. --resume goes on\n" +
			"from there. SIGUSR1 saves and goes on.",
		Example: "  trainer train digits\n  trainer train my.yaml --set train.epochs=3 --devices cpu:2 --run runs/try1\n  trainer train shakespeare --devices cpu:2 --threads 4",
		Args:    cli.Args(1),
	}
	cf, t := runs.AddConfigFlags(c), addTraining(c, stop)
	o := &t.options
	c.Flags().StringVar(&o.Dir, "run", "", "run folder (default runs/NAME)")
	c.Flags().BoolVar(&o.Resume, "resume", false, "go on from the newest checkpoint in the run folder")
	c.Flags().BoolVar(&o.Fresh, "fresh", false, "begin anew, and delete the run that the folder holds")
	c.Flags().StringVar(&o.Init, "init", "", "FILE.safetensors[:PREFIX] with the first weights, by name")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := cf.Load(c, args[0])
		if err != nil {
			return err
		}
		if o.Dir == "" {
			o.Dir = filepath.Join("runs", cfg.Name)
		}
		return t.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), cfg)
	}
	return c
}
