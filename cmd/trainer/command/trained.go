package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
)

// trainedFlags are the flags of commands that use a trained run.
type trainedFlags struct {
	config  *runs.ConfigFlags
	weights *runs.WeightFlags
	faults  *faultFlag
	with    []string // columns beside the answers
}

func addTrained(c *cobra.Command) *trainedFlags {
	return &trainedFlags{config: runs.AddConfigFlags(c), weights: runs.AddWeightFlags(c), faults: addFaults(c)}
}

// use opens the trained run in a folder while f runs. At the end it says what went
// wrong and did no harm.
func (t *trainedFlags) use(c *cobra.Command, dir string, f func(*berth.Trained) error) (err error) {
	faults, err := t.faults.parse()
	if err != nil {
		return err
	}
	run, err := runs.OpenTrained(c, t.config, t.weights, dir, berth.TrainedOptions{Faults: faults, With: t.with})
	if err != nil {
		return byFault(err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	defer runs.TellWarnings(c, run)
	return f(run)
}
