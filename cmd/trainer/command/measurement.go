package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// measurement is a kind of measurement of bench, whose results are R.
type measurement[R any] struct {
	of   func(w bench.Workload) (R, error)
	rate func(r R) string // in a word or two, for the line that names the workload
	tell func(r R)        // nil, or tells what else there is to tell
}

// all measures workloads one after the other.
func (m measurement[R]) all(c *cobra.Command, ws []bench.Workload) (rs []R, err error) {
	for _, w := range ws {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s …", w.Name, w.About)
		r, err := m.of(w)
		if err != nil {
			fmt.Fprintln(c.ErrOrStderr())
			return nil, usageOf(err)
		}
		fmt.Fprintln(c.ErrOrStderr(), "", m.rate(r))
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
func printResults[R any](c *cobra.Command, rs R, asJSON bool, table func(io.Writer, R) error) error {
	if !asJSON {
		return table(c.OutOrStdout(), rs)
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(rs)
}
