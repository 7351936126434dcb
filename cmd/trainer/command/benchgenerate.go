package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// speakers are the workloads that bench --generate measures without names.
var speakers = []string{"gpt-nano", "gpt-small"}

// notGenerating are the flags of bench that say nothing about generating.
var notGenerating = []string{"scaling", "svg", "steps", "microbatches", "schedule", "reduction", "replicas", "shard", "profile", "recompute",
	"fault", "device-memory", "host-memory", "spill-dir"}

// checkGenerate refuses flags that say nothing about generating.
func checkGenerate(c *cobra.Command) error {
	for _, name := range notGenerating {
		if c.Flags().Changed(name) {
			return cli.Usagef("--generate and --%s exclude each other; give one", name)
		}
	}
	return nil
}

// benchGenerate measures generating with the named workloads one after the other.
func benchGenerate(c *cobra.Command, names []string, o bench.RunOptions, asJSON bool) error {
	if err := checkGenerate(c); err != nil {
		return err
	}
	if len(names) == 0 {
		names = speakers
	}
	ws, err := workloads(names)
	if err != nil {
		return err
	}
	var rs []bench.Generation
	for _, w := range ws {
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s …", w.Name, w.About)
		r, err := bench.Generate(c.Context(), w, o)
		if err != nil {
			fmt.Fprintln(c.ErrOrStderr())
			if errors.Is(err, bench.ErrOptions) {
				err = cli.Usage(err)
			}
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), " %.2f ms a token\n", r.DecodeMS.Median)
		rs = append(rs, r)
	}
	if asJSON {
		e := json.NewEncoder(c.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(rs)
	}
	return bench.WriteGenerations(c.OutOrStdout(), rs)
}
