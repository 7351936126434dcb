package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
)

// weightFlags say which weights a command uses.
type weightFlags struct {
	best bool
	id   uint64
	init string
}

func addWeightFlags(c *cobra.Command) *weightFlags {
	f := &weightFlags{}
	c.Flags().BoolVar(&f.best, "best", false, "use the best checkpoint, not the newest")
	c.Flags().Uint64Var(&f.id, "checkpoint", 0, "use the checkpoint with this ID, not the newest")
	c.Flags().StringVar(&f.init, "init", "", "use FILE.safetensors[:PREFIX] in place of a checkpoint")
	return f
}

// openRun opens the run in a folder as it was configured, with the data it was
// trained on or without.
func openRun(c *cobra.Command, cf *configFlags, wf *weightFlags, dir string, data bool) (*berth.Run, berth.Weights, error) {
	w := berth.Weights{Dir: dir, Best: wf.best, ID: wf.id, Init: wf.init}
	if w.Best && w.ID != 0 {
		return nil, w, usageError{errors.New("--best and --checkpoint exclude each other; give one")}
	}
	cfg, err := cf.loadRun(c, dir)
	if err != nil {
		return nil, w, err
	}
	var run *berth.Run
	if data {
		run, err = berth.Open(c.Context(), cfg)
	} else {
		run, err = berth.OpenTrained(c.Context(), cfg, w)
	}
	return run, w, missing(err)
}

func evalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "eval RUN",
		Short:   "Compute loss and accuracy of a trained run",
		Long:    "Compute loss and accuracy of a run's checkpoint over its validation part (the training part, if there is no other).",
		Example: "  trainer eval runs/digits --best\n  trainer eval runs/digits --json --threads 1",
		Args:    exactArgs(1),
	}
	cf, wf := addConfigFlags(c), addWeightFlags(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		run, w, err := openRun(c, cf, wf, args[0], true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		res, err := run.Eval(c.Context(), w)
		if err != nil {
			return missing(err)
		}
		if *asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(res)
		}
		fmt.Fprintf(c.OutOrStdout(), "%d samples, loss %.4f", res.Samples, res.Loss)
		if res.Accuracy != nil {
			fmt.Fprintf(c.OutOrStdout(), ", accuracy %.2f%%", 100**res.Accuracy)
		}
		fmt.Fprintln(c.OutOrStdout())
		return nil
	}
	return c
}
