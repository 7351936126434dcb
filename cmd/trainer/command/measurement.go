package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/internal/busy"
)

// measurement is a kind of measurement of bench, whose results are R.
type measurement[R any] struct {
	of   func(w bench.Workload) (R, error)
	rate func(r R) string // in a word or two, behind the name of the workload
	tell func(r R)        // nil, or tells what else there is to tell

	// sharing: the processes of a launcher measure together, and take the cores from each other.
	sharing bool
}

// all measures workloads one after the other, and tells of each how far it is.
func (m measurement[R]) all(progress io.Writer, ws []bench.Workload) (rs []R, err error) {
	for _, w := range ws {
		fmt.Fprintf(progress, "%s: %s …\n", w.Name, w.About)
		period := busy.Begin()
		r, err := m.of(w)
		if err != nil {
			return nil, usageOf(err)
		}
		fmt.Fprintf(progress, "%s: %s\n", w.Name, m.rate(r))
		if !m.sharing && period.Busy() {
			fmt.Fprintf(progress, "%s: other processes took the cores meanwhile, so a quiet machine is faster: measure again when they have ended\n", w.Name)
		}
		if m.tell != nil {
			m.tell(r)
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// usageOf makes an error about a measurement's options one of usage.
func usageOf(err error) error {
	if errors.Is(err, bench.ErrOptions) {
		return cli.Usage(err)
	}
	return err
}

// printResults prints results as a table, or as JSON.
func printResults[R any](c *cobra.Command, rs R, asJSON bool, table func(io.Writer, R, int) error) error {
	if out := console.NewProse(c.OutOrStdout()); !asJSON {
		return table(out, rs, console.Room(out))
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(rs)
}
