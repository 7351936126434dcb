package command

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/columns"
)

func importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import DIR", Short: "Make a run of a GPT-2 from Hugging Face",
		Long: "Make a run folder of a GPT-2 in Hugging Face's layout: config.json, model.safetensors (or its index), and tokenizer.json\n" +
			"(or vocab.json and merges.txt). The run evaluates and generates text, and trainer resume RUN --set data.path=FILE\n" +
			"trains it on a text.\n" +
			"The folder is runs/NAME, where NAME is that of DIR, or the first free of runs/NAME-2, runs/NAME-3, ….\n" +
			"An import that fails leaves nothing there.",
		Example: "  trainer import gpt2 --run runs/gpt2\n  trainer generate runs/gpt2 --prompt \"Once upon a time\"\n  trainer eval runs/gpt2 --set data.path=book.txt\n  trainer resume runs/gpt2 --set data.path=book.txt --set train.steps=200",
		Args:    cli.Args(1),
	}
	var o berth.ImportOptions
	dir, quiet := "", false
	cf := runs.AddConfigFlags(c)
	cli.Rare(c, "devices", "threads", "device-memory")
	c.Flags().StringVar(&dir, "run", "", "make the run folder `DIR` (default runs/NAME, or the first free of runs/NAME-2, …)")
	c.Flags().BoolVar(&quiet, "quiet", false, "print errors only")
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] == "" {
			return cli.Usagef("the name of the folder is empty; name the folder of a model")
		}
		from, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		o.Name = configs.NameOf(from + ".yaml")
		if dir == "" {
			dir = runs.NewFolder(o.Name)
		}
		o.Overlay = cf.Overlay(c)
		notes := c.ErrOrStderr()
		if quiet {
			notes = nil
		}
		var doing phase.Share
		o.Progress = func(share float64) { doing.Say("weights", share) }
		done := phase.WaitFor(c.Context(), notes, "importing", &doing)
		m, err := berth.Import(c.Context(), args[0], dir, o)
		done()
		if errors.Is(err, berth.ErrHasCheckpoint) {
			return cli.Usagef("%s holds a run: name another folder (--run DIR)", dir)
		}
		if err != nil || quiet {
			return err
		}
		for _, note := range m.Notes {
			fmt.Fprintln(notes, note)
		}
		data := ""
		if m.Config.Data.Path == "" {
			data = " --set data.path=FILE"
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s parameters, %s tokens; trainer resume %s%s trains it\n",
			columns.Printed(dir), text.Commas(m.Parameters), text.Commas(int64(m.Config.Model.Vocab)), columns.Printed(dir), data)
		return err
	}
	return c
}
