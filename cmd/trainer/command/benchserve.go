package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// notServing are the flags of bench that say nothing about serving.
var notServing = append([]string{"generate", "stages", "op-by-op"}, notGenerating...)

// servingFlags are the flags of bench --serve.
type servingFlags struct {
	on      bool
	clients int
}

// add declares the flags.
func (f *servingFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "serve", false, "measure how fast a server of workloads answers over HTTP")
	c.Flags().IntVar(&f.clients, "clients", 32, "with --serve: `N` clients that ask at once")
}

// check refuses flags that say nothing or two things.
func (f *servingFlags) check(c *cobra.Command) error {
	if !f.on && c.Flags().Changed("clients") {
		return cli.Usagef("--clients has a meaning only with --serve; give --serve too, or leave --clients out")
	}
	for _, name := range notServing {
		if f.on && c.Flags().Changed(name) {
			return cli.Usagef("--serve and --%s exclude each other; give one", name)
		}
	}
	return nil
}

// run measures servers of the named workloads one after the other.
func (f *servingFlags) run(c *cobra.Command, names []string, o bench.RunOptions, asJSON bool) error {
	if len(names) == 0 {
		names = quickest
	}
	ws, err := workloads(c, names)
	if err != nil {
		return err
	}
	rs, err := measurement[bench.Serving]{
		of:   func(w bench.Workload) (bench.Serving, error) { return bench.Serve(c.Context(), w, f.clients, o) },
		rate: func(r bench.Serving) string { return text.Rate(r.RequestsPerS, "request") },
	}.all(c.ErrOrStderr(), ws)
	if err != nil {
		return err
	}
	return printResults(c, rs, asJSON, bench.WriteServings)
}
