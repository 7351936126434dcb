package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// evalArgs asks for a run. It says how other rows are named, which predict has behind the run.
func evalArgs(c *cobra.Command, args []string) error {
	if len(args) == 2 {
		return cli.Usagef("give other rows as the data: %s %s --set data.path=%s", c.CommandPath(), args[0], args[1])
	}
	return cli.Args(1)(c, args)
}

func evalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "eval RUN",
		Short: "Compute loss and metrics of a trained run",
		Long: "Compute loss and metrics of a run's checkpoint over the validation part of its data, or over the training part where there is none. The checkpoint is the best, or with --last the newest; where none has the metric checkpoint.best, the newest. Other data (--set data.path=FILE) is used whole, scaled as the training part was.\n" +
			"\n" +
			"The run may train meanwhile.",
		Example: "  trainer eval runs/digits\n  trainer eval runs/digits --metrics auc,top_3\n  trainer eval runs/iris --set data.path=held-out.csv --json",
		Args:    evalArgs,
	}
	flags := addTrained(c)
	flags.config.AddFlag(c, "metrics")
	part := c.Flags().String("part", "validation", "the `PART` of the data: validation or test")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *part != "validation" && *part != "test" {
			return cli.Usagef("--part %s: expected validation or test", *part)
		}
		return flags.use(c, args[0], func(run *berth.Trained) error {
			eval := run.Eval
			if *part == "test" {
				eval = run.EvalTest
			}
			res, err := eval(c.Context())
			if err != nil {
				return err
			}
			runs.TellUsed(c, flags.weights, run.Used())
			if *asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(res)
			}
			return printEvaluation(console.NewProse(c.OutOrStdout()), res)
		})
	}
	return c
}
