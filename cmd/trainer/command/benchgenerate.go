package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/internal/units"
)

// speakers are the workloads that bench --generate measures without names.
var speakers = []string{"gpt-nano", "gpt-small"}

// notGenerating are the flags of bench that say nothing about generating.
var notGenerating = []string{"scaling", "svg", "steps", "microbatches", "schedule", "reduction", "replicas", "shard", "profile", "watch", "recompute",
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
	ws, err := workloads(c, names)
	if err != nil {
		return err
	}
	rs, err := measurement[bench.Generation]{
		of: func(w bench.Workload) (bench.Generation, error) {
			return bench.Generate(c.Context(), w, asConfigured(c, w, o))
		},
		rate: func(r bench.Generation) string { return units.Milliseconds(r.DecodeMS.Median) + " a token" },
	}.all(c.ErrOrStderr(), ws)
	if err != nil {
		return err
	}
	return printResults(c, rs, asJSON, bench.WriteGenerations)
}
