package command

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func tokenizerCommand() *cobra.Command {
	c := &cobra.Command{Use: "tokenizer", Short: "Learn a tokenizer from text", Example: "  trainer tokenizer train books/ --vocab 4096 --out tokenizer.json"}
	cli.Group(c)
	c.AddCommand(tokenizerTrainCommand())
	return c
}

// tokenizerFlags are the flags of tokenizer train.
type tokenizerFlags struct {
	vocab int
	field string
	out   string
	quiet bool
}

func tokenizerTrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "train PATH...", Short: "Learn words and parts of words from text",
		Long: "Learn a byte pair encoding from the text of files and folders (builtin:shakespeare is inside the binary), and write it as a tokenizer.json of Hugging Face's tokenizers, for data.tokenizer. The same text gives the same file.\n" +
			"\n" +
			"A config does this by itself with data.tokenizer: bpe:4096; a file can be shared by runs and programs.",
		Example: "  trainer tokenizer train books/ --vocab 4096 --out tokenizer.json\n  trainer tokenizer train posts.jsonl --field text --out posts.json",
		Args:    cli.ArgsBetween(1, math.MaxInt),
	}
	var f tokenizerFlags
	c.Flags().IntVar(&f.vocab, "vocab", 4096, "`N` tokens: 256 bytes, N-257 words and parts of words, and <|endoftext|>")
	c.Flags().StringVar(&f.field, "field", "", "the files are JSON lines, whose text is under `KEY`")
	c.Flags().StringVar(&f.out, "out", "tokenizer.json", "write the tokenizer to `FILE`")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "print errors only")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c, args) }
	return c
}

// run learns from the text of paths.
func (f *tokenizerFlags) run(c *cobra.Command, paths []string) error {
	if f.vocab < tokenizer.LeastVocab || f.vocab > tokenizer.MostVocab {
		return cli.Usagef("--vocab %d: expected a number of tokens from %d (the bytes and %s) to %d", f.vocab, tokenizer.LeastVocab, tokenizer.EndOfText, tokenizer.MostVocab)
	}
	if err := rundir.CheckOutput(f.out, "", paths...); err != nil {
		return cli.Usagef("--out %w", err)
	}
	t, err := f.learn(c, paths)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case err != nil:
		return cli.Usage(err) // of the text
	}
	if err := rundir.WriteOutput(f.out, t.Write); err != nil {
		return err
	}
	if f.quiet {
		return nil
	}
	note := ""
	if t.Len() < f.vocab {
		note = fmt.Sprintf(", fewer than %s: no further pair comes twice in the text", units.Thousands(f.vocab))
	}
	_, err = fmt.Fprintf(console.NewProse(c.OutOrStdout()), "%s tokens in %s%s\n", units.Thousands(t.Len()), columns.Printed(f.out), note)
	return err
}

func (f *tokenizerFlags) learn(c *cobra.Command, paths []string) (*tokenizer.BPE, error) {
	var doing phase.Share
	notes := c.ErrOrStderr()
	if f.quiet {
		notes = nil
	}
	defer phase.WaitFor(c.Context(), notes, "tokenizer", &doing)()
	return datasets.LearnTokenizer(c.Context(), paths, datasets.LearnOptions{
		Vocab: f.vocab, Field: f.field, FieldName: "--field", Progress: doing.Say, Note: func(text string) {
			if !f.quiet {
				fmt.Fprintln(notes, text)
			}
		},
	})
}
