package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/checkpoints"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// importing is a call of the command import.
type importing struct {
	c       *cobra.Command
	dir     string // of the run; "" if not given
	quiet   bool
	config  *runs.ConfigFlags
	weights *runs.WeightFlags
}

func importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import DIR|FILE[:PREFIX]", Short: "Make a run of a GPT-2, a Llama or exported weights, or add weights to a run",
		Long: "Make a run of DIR, a GPT-2, Llama, Mistral or Qwen2 in Hugging Face's layout: config.json, model.safetensors (or its index), and tokenizer.json (or vocab.json and merges.txt). The run is runs/NAME after DIR, or the next free one. It evaluates and generates text, and goes on with trainer resume RUN --set data.path=FILE.\n" +
			"\n" +
			"Or make a run of FILE, which trainer export wrote in the format safetensors: it answers as the run that the file is of.\n" +
			"\n" +
			"Or add a checkpoint to the run --run, where there is one: the newest one with its weights replaced by those of FILE, in the format safetensors, found by PREFIX and name. To begin a run from weights, use trainer train --init.",
		Example: "  trainer import gpt2 --run runs/gpt2\n  trainer generate runs/gpt2 --prompt \"Once upon a time\"\n  trainer resume runs/gpt2 --set data.path=book.txt --set train.steps=200\n  trainer import digits.safetensors --run runs/again\n  trainer import digits.safetensors --run runs/digits",
		Args:    importArgs,
	}
	m := &importing{c: c, config: runs.AddConfigFlags(c), weights: runs.AddCheckpointFlags(c)}
	cli.Rare(c, "devices", "threads", "device-memory")
	c.Flags().StringVar(&m.dir, "run", "", "the run folder `DIR`: a new one, or with FILE that of a run")
	c.Flags().BoolVar(&m.quiet, "quiet", false, "print errors only")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if args[0] == "" {
			return cli.Usagef("the name of the folder is empty; name the folder of a model")
		}
		if path, prefix := splitPrefix(args[0]); m.isWeights(path) && !m.becomesRun(path, prefix) {
			return m.file(path, prefix)
		}
		return m.folder(args[0])
	}
	return c
}

// importArgs asks for what is imported. It says where the run goes that some name before
// it.
func importArgs(c *cobra.Command, args []string) error {
	if len(args) == 2 {
		return cli.Usagef("give the run as a flag: %s %s --run %s", c.CommandPath(), args[1], args[0])
	}
	return cli.Args(1)(c, args)
}

// isWeights reports whether a path is that of a file, also of one that is missing.
func (m *importing) isWeights(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir() || err != nil && strings.Contains(filepath.Base(path), ".safetensors")
}

// becomesRun reports whether a run is made of a file of weights, since there is none that it
// could go to.
func (m *importing) becomesRun(path, prefix string) bool {
	if _, err := os.Stat(path); err != nil || prefix != "" || filepath.Ext(path) != ".safetensors" {
		return false
	}
	st, err := os.Stat(m.dir)
	return err != nil || st.IsDir() && !rundir.IsRun(osfile.Resolve(m.dir))
}

// file adds a checkpoint with the weights of a file to a run.
func (m *importing) file(path, prefix string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("there is no file %q: name a safetensors file, such as trainer export makes", path)
	}
	if m.dir == "" {
		return cli.Usagef("%s is a file: name the run that gets its weights with --run, such as --run runs/digits; to import a model, name its folder", path)
	}
	if given := m.config.Given(m.c); given != "" {
		return cli.Usagef("--%s changes no weights: leave it out, and give it to trainer resume", given)
	}
	added, err := checkpoints.Import(m.c, m.dir, m.weights, path, prefix)
	if err != nil || m.quiet {
		return err
	}
	_, err = fmt.Fprintf(console.NewProse(m.c.OutOrStdout()), "checkpoint %d: step %d, weights from %s\n", added.ID, added.Step, columns.Printed(path))
	return err
}

// splitPrefix splits FILE[:PREFIX]. A file whose own name has a colon is found
// first.
func splitPrefix(arg string) (path, prefix string) {
	if _, err := os.Stat(arg); err == nil {
		return arg, ""
	}
	if i := strings.LastIndexByte(arg, ':'); i >= 0 {
		return arg[:i], arg[i+1:]
	}
	return arg, ""
}

// folder makes a run of a model in Hugging Face's layout, or of exported weights.
func (m *importing) folder(path string) error {
	if m.weights.Given() {
		return cli.Usagef("--checkpoint and --best are of the run that a file's weights go to: leave them out, or name a file of weights")
	}
	from, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	o := berth.ImportOptions{Name: configs.NameOf(strings.TrimSuffix(from, ".safetensors") + ".yaml"), Overlay: m.config.Overlay(m.c)}
	dir := cmp.Or(m.dir, runs.NewFolder(o.Name, reserved(m.c.Context())))
	notes := m.c.ErrOrStderr()
	if m.quiet {
		notes = nil
	}
	var doing phase.Share
	o.Progress = func(share float64) { doing.Say("weights", share) }
	done := phase.WaitFor(m.c.Context(), notes, "importing", &doing)
	x, err := berth.Import(m.c.Context(), path, dir, o)
	done()
	if errors.Is(err, berth.ErrHasCheckpoint) {
		return cli.Usagef("%s holds a run: name another folder (--run DIR)", dir)
	}
	if err != nil || m.quiet {
		return err
	}
	for _, note := range x.Notes {
		fmt.Fprintln(notes, note)
	}
	data := ""
	if x.Config.Data.Path == "" {
		data = " --set data.path=FILE"
	}
	tokens := ""
	if vocab := x.Config.Model.Vocab; vocab > 0 {
		tokens = fmt.Sprintf(", %s tokens", units.Thousands(vocab))
	}
	_, err = fmt.Fprintf(console.NewProse(m.c.OutOrStdout()), "%s: %s parameters%s; trainer resume %s%s trains it\n",
		columns.Printed(dir), units.Thousands(x.Parameters), tokens, columns.Printed(dir), data)
	return err
}
