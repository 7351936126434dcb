package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/columns"
)

func exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export RUN DIR", Short: "Write a GPT for Hugging Face's transformers",
		Long: "Write the model of a run's checkpoint, the newest unless another is chosen, into a new folder in Hugging Face's layout:\n" +
			"config.json, model.safetensors, tokenizer.json. transformers loads it: GPT2LMHeadModel.from_pretrained(DIR).\n" +
			"The model must be of the preset gpt. (trainer checkpoints export writes the weights of any model.)",
		Example: "  trainer export runs/shakespeare-bpe my-gpt\n  trainer export runs/gpt2 tuned --best",
		Args:    cli.Args(2),
	}
	w := runs.AddCheckpointFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !rundir.IsRun(osfile.Resolve(args[0])) {
			return cli.Usagef("%s is not a run folder: it has no %s; name one, such as runs/shakespeare-bpe", args[0], rundir.CheckpointsName)
		}
		weights, err := w.Weights(c, args[0])
		if err != nil {
			return err
		}
		done := phase.Wait(c.Context(), c.ErrOrStderr(), "exporting")
		x, err := berth.Export(c.Context(), weights, args[1])
		done()
		if errors.Is(err, checkpoint.ErrNotFound) {
			return cli.Usagef("%w; name a run folder, such as runs/shakespeare-bpe", err)
		}
		if err != nil {
			return err
		}
		runs.TellSkipped(c, x.Used.Skipped)
		for _, note := range x.Notes {
			fmt.Fprintln(c.ErrOrStderr(), note)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "checkpoint %d, step %d: %s\n", x.Used.ID, x.Used.Step, columns.Printed(args[1]))
		return err
	}
	return c
}
