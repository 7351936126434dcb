package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/device/fault"
)

// faultFlag is the values of --fault, for drills.
type faultFlag struct{ texts []string }

// addFaults gives c the flag.
func addFaults(c *cobra.Command) *faultFlag {
	f := &faultFlag{}
	c.Flags().StringArrayVar(&f.texts, "fault", nil, "let an operation go wrong, as a `DRILL` such as 'cpu:1 launch 3 hang' says; can be repeated")
	return f
}

// byFault names the flag in an error about a fault that no device can have.
func byFault(err error) error {
	if errors.Is(err, fault.ErrFault) {
		return fmt.Errorf("--fault: %w", err)
	}
	return err
}

// parse reads the flag's values.
func (f *faultFlag) parse() (list []fault.Fault, err error) {
	for _, text := range f.texts {
		x, err := fault.Parse(text)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--fault: %w", err))
		}
		list = append(list, x)
	}
	return list, nil
}
