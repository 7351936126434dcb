package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// resumeFlag is the flag --resume, alone or as --resume=auto. It is Begin
// without the flag.
type resumeFlag struct{ mode runs.Mode }

// addResumeFlag gives c the flag.
func addResumeFlag(c *cobra.Command) *resumeFlag {
	f := &resumeFlag{}
	c.Flags().Var(f, "resume", "go on from the newest checkpoint; --resume=auto begins a run if there is none")
	c.Flags().Lookup("resume").NoOptDefVal = "true"
	return f
}

// words are the values of the flag; true is the flag alone.
var words = map[string]runs.Mode{"true": runs.Resume, "false": runs.Begin, "auto": runs.Auto}

// Set reads the flag's value.
func (f *resumeFlag) Set(text string) error {
	mode, ok := words[text]
	if !ok {
		return errors.New("not a value of --resume")
	}
	f.mode = mode
	return nil
}

// String is the flag's value.
func (f *resumeFlag) String() string {
	for text, mode := range words {
		if mode == f.mode {
			return text
		}
	}
	return ""
}

// Type makes help show the flag without a value.
func (f *resumeFlag) Type() string { return "bool" }

// Expected words the flag's values.
func (f *resumeFlag) Expected() string { return "--resume alone, or --resume=auto" }

// oneConfig asks for one argument. It explains --resume auto, which lacks its =.
func oneConfig(c *cobra.Command, args []string) error {
	if len(args) == 2 && args[1] == "auto" && c.Flags().Changed("resume") {
		return cli.Usagef("--resume auto: write it with =, as --resume=auto")
	}
	return cli.Args(1)(c, args)
}
