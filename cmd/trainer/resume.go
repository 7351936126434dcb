package main

import "github.com/spf13/cobra"

func resumeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Continue a run from its newest checkpoint",
		Long:    "Continue the run in a folder from its newest whole checkpoint, bit for bit, with the config saved there.",
		Example: "  trainer resume runs/digits\n  trainer resume runs/digits --devices cpu:2 --threads 2",
		Args:    exactArgs(1),
	}
	cf, tf := addConfigFlags(c), addTrainFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := cf.loadRun(c, args[0])
		if err != nil {
			return err
		}
		tf.options.Dir, tf.options.Resume = args[0], true
		tf.waits = c.ErrOrStderr()
		return train(c.Context(), c.OutOrStdout(), cfg, tf)
	}
	return c
}
