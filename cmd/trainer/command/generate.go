package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/internal/units"
)

// longestPrompt is the most bytes of a prompt that are read from standard input.
const longestPrompt = 16 << 20

func generateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "generate RUN",
		Short: "Continue a text with a trained model of text",
		Long: "Print a text that continues a prompt, as it comes. The prompt itself is not printed. With --chat, the prompt is a user's message, or a list of messages in JSON, and the text is the model's answer by its chat template.\n" +
			"\n" +
			"Several prompts are continued at once, in less time than one after the other, and each text is the one that it is alone. The first is printed as it comes, and the others below it when all have ended.\n" +
			"\n" +
			"The text ends after --tokens tokens, before a --stop text, at a token that ends a document or an answer, or once the context is full. With --slide it then goes on: the model reads the later half again. The same --seed gives the same text on the same kind of device.",
		Example: "  trainer generate runs/shakespeare --prompt \"ROMEO:\" --tokens 300 --slide\n" +
			"  trainer generate runs/shakespeare --prompt - --temperature 0 < beginning.txt\n" +
			"  trainer generate runs/shakespeare --last --top-k 40 --seed 2 --stop User:\n" +
			"  trainer generate runs/shakespeare --prompt ROMEO: --prompt JULIET: --slide\n" +
			"  trainer generate runs/llama --chat --prompt \"What is a tensor?\"",
		Args: cli.Args(1),
	}
	cf, wf, ff, gf := runs.AddConfigFlags(c), runs.AddWeightFlags(c), addFaults(c), addGenerateFlags(c)
	cli.Rare(c, "context", "device-memory", "init", "repetition-penalty", "top-p")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		list, err := gf.options(c)
		if err != nil {
			return err
		}
		faults, err := ff.parse()
		if err != nil {
			return err
		}
		run, err := runs.OpenTrained(c, cf, wf, args[0], berth.TrainedOptions{Text: true, Faults: faults})
		if err != nil {
			return byFault(err)
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		defer runs.TellWarnings(c, run)
		return generate(c, run, wf, list, gf.json)
	}
	return c
}

// generateFlags describe texts to generate.
type generateFlags struct {
	berth.GenerateOptions
	prompts    []string
	chat, json bool
}

// addGenerateFlags gives c those flags.
func addGenerateFlags(c *cobra.Command) *generateFlags {
	f := &generateFlags{}
	c.Flags().StringArrayVar(&f.prompts, "prompt", nil, "the `TEXT` to continue; - reads it from standard input; can be repeated")
	c.Flags().BoolVar(&f.chat, "chat", false, "answer --prompt, a user's message or a JSON list of messages, by the chat template")
	c.Flags().IntVar(&f.Tokens, "tokens", 200, "generate at most `N` tokens; 0: no limit")
	c.Flags().Float64Var(&f.Temperature, "temperature", 0.8, "draw more evenly with a higher `T`; 0 takes the likeliest token")
	c.Flags().IntVar(&f.TopK, "top-k", 0, "draw from the `K` likeliest tokens; 0: from all")
	c.Flags().Float64Var(&f.TopP, "top-p", 1, "draw from the likeliest tokens whose probabilities sum to `P`")
	c.Flags().Float64Var(&f.RepetitionPenalty, "repetition-penalty", 1, "make tokens of the text so far less likely with a `P` above 1")
	c.Flags().Uint64Var(&f.Seed, "seed", 0, "another `N` gives another text")
	c.Flags().StringArrayVar(&f.Stop, "stop", nil, "end before `TEXT`; can be repeated")
	c.Flags().IntVar(&f.Context, "context", 0, "let the model see `N` tokens at once, at most model.context (default: data.context)")
	c.Flags().BoolVar(&f.Slide, "slide", false, "go on when the context is full: read its later half again")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON lines")
	return f
}

// options are the flags' texts, with a prompt from standard input read.
func (f *generateFlags) options(c *cobra.Command) (list []berth.GenerateOptions, err error) {
	if c.Flags().Changed("top-p") && f.TopP == 0 {
		return nil, cli.Usagef("--top-p 0: give a number above 0, and at most 1")
	}
	if f.RepetitionPenalty == 0 {
		return nil, cli.Usagef("--repetition-penalty 0: give a number from %v to %v; 1 is none", berth.LeastPenalty, berth.MostPenalty)
	}
	if f.chat && len(f.prompts) == 0 {
		return nil, cli.Usagef("--chat: there is no message to answer: give it as --prompt TEXT")
	}
	if len(f.prompts) == 0 {
		f.prompts = []string{"\n"}
	}
	read := false
	for _, prompt := range f.prompts {
		o := f.GenerateOptions
		if o.Prompt = prompt; prompt == "-" {
			if read {
				return nil, cli.Usagef("--prompt -: it is given twice, and standard input is one text; give other prompts as --prompt TEXT")
			}
			read = true
			o.Prompt, err = readPrompt(c)
		}
		if err == nil {
			err = f.converse(&o)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// readPrompt is the text of standard input.
func readPrompt(c *cobra.Command) (string, error) {
	b, err := console.Wait(c.Context(), func() ([]byte, error) { return io.ReadAll(io.LimitReader(c.InOrStdin(), longestPrompt+1)) })
	switch {
	case err != nil:
		return "", fmt.Errorf("--prompt -: %w", err)
	case len(b) > longestPrompt:
		return "", cli.Usagef("--prompt -: standard input has more than 16 MiB; give the part that the model is to continue")
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// converse makes messages of the prompt where --chat asks for it: those of a list of objects in JSON, which
// begins with [{, or else one of the user.
func (f *generateFlags) converse(o *berth.GenerateOptions) (err error) {
	if !f.chat {
		return nil
	}
	text, isList := strings.CutPrefix(strings.TrimSpace(o.Prompt), "[")
	if isList = isList && strings.HasPrefix(strings.TrimSpace(text), "{"); !isList {
		o.Messages, o.Prompt = []berth.Message{{Role: "user", Content: o.Prompt}}, ""
		return nil
	}
	if o.Messages, err = chat.ReadMessages([]byte(o.Prompt), math.MaxInt); err != nil {
		return cli.Usagef("--chat: --prompt begins with [{, as a list of messages does, and is none: %v; a text that begins so is sent as a message's content", err)
	}
	o.Prompt = ""
	return nil
}

// generate prints the texts, and says on standard error why they ended early.
func generate(c *cobra.Command, run *berth.Trained, wf *runs.WeightFlags, list []berth.GenerateOptions, asJSON bool) error {
	told := false
	out := newGenerated(c.OutOrStdout(), len(list), asJSON)
	all, err := run.GenerateAll(c.Context(), list, func(text int, p berth.Piece) error {
		if !told {
			told = true
			runs.TellUsed(c, wf, run.Used())
		}
		return out.piece(text, p)
	})
	if e := out.end(); err == nil {
		err = e
	}
	if _, long := errors.AsType[*berth.LongPromptError](err); long {
		return fmt.Errorf("%w; --slide does that", err)
	}
	if errors.Is(err, berth.ErrStopped) { // there is nothing to go on from, so it has not the exit code of a run that was saved
		return errors.New(err.Error())
	}
	if err != nil {
		return err
	}
	for i, res := range all {
		if o := list[i]; res.End == berth.EndContext && (o.Tokens == 0 || res.Tokens < o.Tokens) {
			fmt.Fprintf(c.ErrOrStderr(), "the context of %s is full: --slide goes on\n", units.Count(res.PromptTokens+res.Tokens-1, "token"))
			break
		}
	}
	if asJSON {
		return out.results(all)
	}
	return nil
}
