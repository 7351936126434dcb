package command

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

func evalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "eval RUN",
		Short: "Compute loss and metrics of a trained run",
		Long: "Compute loss and metrics of a run's checkpoint over the validation part of its data, or the training part if there is\n" +
			"no validation part: every metric that the model has and that takes little time, and those of --metrics. Other data (--set data.path=FILE) is used whole, scaled as the training part was.\n" +
			"The run may train meanwhile: the result is of the one checkpoint that is named, the newest unless another is chosen.\n" +
			"Several devices share the batches: each has the model, or a group of them where one has no room for it. When one\n" +
			"is lost, the others take over its batches.",
		Example: "  trainer eval runs/digits --best\n  trainer eval runs/digits --metrics auc,top_3\n  trainer eval runs/iris --set data.path=held-out.csv --json",
		Args:    cli.Args(1),
	}
	cf, wf, ff := runs.AddConfigFlags(c), runs.AddWeightFlags(c), addFaults(c)
	cf.AddFlag(c, "metrics")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		faults, err := ff.parse()
		if err != nil {
			return err
		}
		run, err := runs.OpenTrained(c, cf, wf, args[0], faults...)
		if err != nil {
			return byFault(err)
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		defer runs.TellWarnings(c, run)
		res, err := run.Eval(c.Context())
		if err != nil {
			return err
		}
		runs.TellUsed(c, wf, run.Used())
		if *asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(res)
		}
		return printEvaluation(c.OutOrStdout(), res)
	}
	return c
}
