package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
)

func planCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "plan CONFIG|NAME",
		Short:   "Show how a model is split before anything runs",
		Long:    "Print, per stage: its device, layers, parameters, arithmetic, bytes in and out, and peak memory by usage; then the schedule.",
		Example: "  trainer plan shakespeare --devices cpu:2 --set train.microbatches=4\n  trainer plan my.yaml --dot > plan.dot",
		Args:    exactArgs(1),
	}
	cf := addConfigFlags(c)
	dot := c.Flags().Bool("dot", false, "print the plan as a Graphviz graph")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		cfg, err := cf.load(c, args[0])
		if err != nil {
			return err
		}
		run, err := berth.Open(c.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		if *dot {
			fmt.Fprintln(c.OutOrStdout(), run.Plan.DOT())
			return nil
		}
		s, err := run.Schedule()
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s\n%s", run.Plan.Table(), s)
		return nil
	}
	return c
}
