package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
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

// openRun opens the run in a folder to use it.
func openRun(c *cobra.Command, cf *configFlags, wf *weightFlags, dir string) (*berth.Run, berth.Weights, error) {
	w := berth.Weights{Dir: dir, Best: wf.best, ID: wf.id, Init: wf.init}
	if err := wf.check(c); err != nil {
		return nil, w, err
	}
	cfg, err := cf.loadRun(c, dir)
	if err != nil {
		return nil, w, err
	}
	done := waiting(c.Context(), c.ErrOrStderr(), "planning")
	run, err := berth.OpenTrained(c.Context(), cfg, w)
	if w.Init != "" && errors.Is(err, checkpoint.ErrNotFound) { // the data it is configured with must do
		run, err = berth.Open(c.Context(), cfg)
	}
	done()
	if err == nil {
		tellSkipped(c, run.Skipped)
	}
	return run, w, err
}

// check refuses flags that exclude each other, and a checkpoint that cannot be.
func (f *weightFlags) check(c *cobra.Command) error {
	given := c.Flags().Changed("checkpoint")
	switch {
	case given && f.id == 0:
		return usageError{errors.New("--checkpoint 0: IDs begin at 1; see trainer checkpoints ls")}
	case f.best && given:
		return usageError{errors.New("--best and --checkpoint exclude each other; give one")}
	case f.init != "" && (f.best || given):
		return usageError{errors.New("--init is in place of a checkpoint: leave --best and --checkpoint out")}
	}
	return nil
}

func evalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "eval RUN",
		Short: "Compute loss and accuracy of a trained run",
		Long: "Compute loss and accuracy of a run's checkpoint over its validation part (the training part, if there is no other).\n" +
			"On other data than it was trained on, which --set data.path=FILE gives, over all of it, scaled as the training part was.",
		Example: "  trainer eval runs/digits --best\n  trainer eval runs/iris --set data.path=held-out.csv --json",
		Args:    exactArgs(1),
	}
	cf, wf := addConfigFlags(c), addWeightFlags(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		run, w, err := openRun(c, cf, wf, args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		res, err := run.Eval(c.Context(), w)
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(res)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s%s, loss %s%s", many(res.Samples, "sample"), map[string]string{"training": " trained on", "all": " of other data"}[res.Part], lossText(res.Loss), rmseText(", ", res.RMSE))
		if res.Accuracy != nil {
			fmt.Fprintf(c.OutOrStdout(), ", accuracy %.2f%%", 100**res.Accuracy)
		}
		fmt.Fprintln(c.OutOrStdout())
		return nil
	}
	return c
}
