package command

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/units"
)

// usualOverfit is the steps of --overfit-batch without a number.
const usualOverfit = 200

// addOverfit gives c the flag --overfit-batch, which sets steps.
func addOverfit(c *cobra.Command, steps *int) {
	c.Flags().IntVar(steps, "overfit-batch", 0, fmt.Sprintf("train on one batch alone for `STEPS` (%d without a number), to see whether the model can learn", usualOverfit))
	c.Flags().Lookup("overfit-batch").NoOptDefVal = strconv.Itoa(usualOverfit)
}

// checkOverfit refuses what does not go with --overfit-batch.
func (t *training) checkOverfit(c *cobra.Command) error {
	switch {
	case !c.Flags().Changed("overfit-batch"):
		return nil
	case t.overfit < 2:
		return cli.Usagef("--overfit-batch=%d: expected a whole number of at least 2", t.overfit)
	case c.Flags().Changed("resume"):
		return cli.Usagef("--overfit-batch trains a new run and cannot resume one: leave out --resume")
	case t.options.MaxSteps > 0:
		return cli.Usagef("--overfit-batch takes the number of steps as its value: give --overfit-batch=%d instead of --max-steps", max(2, t.options.MaxSteps))
	}
	return nil
}

// learnt is the share of the first loss below which a model has learnt a batch.
const learnt = 0.5

// printOverfit prints how the loss of one batch fell, and what that means.
func printOverfit(out io.Writer, run *berth.Run, r *berth.Report) {
	if len(r.Losses) == 0 {
		return
	}
	first, last := r.Losses[0], r.Losses[len(r.Losses)-1]
	verdict := "the model learns this batch: train on all data, without --overfit-batch"
	if last > learnt*first {
		verdict = "the loss hardly fell: look at optimizer.lr, the loss and the labels before you train on all data"
	}
	fmt.Fprintf(out, "one batch of %s, %s: loss %s at first, %s at last\n%s\n",
		units.Count(run.Data.Train.Samples(), "sample"), units.Count(r.Steps, "step"), text.Loss(first), text.Loss(last), verdict)
}
