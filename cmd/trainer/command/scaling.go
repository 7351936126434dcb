package command

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// scalingFlags are the flags of bench --scaling.
type scalingFlags struct {
	on  bool
	svg string // a path; "" if not given
}

// add declares the flags.
func (f *scalingFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.on, "scaling", false, "measure one workload (default gpt-small) on 1, 2, 4 and more of --devices")
	c.Flags().StringVar(&f.svg, "svg", "", "with --scaling: also draw the speed-ups into `FILE`")
}

// notScaled are the flags whose values --scaling tries itself, or with which its ways could
// not be compared: segments are timed beside the model, which a limit on memory leaves no
// room for.
var notScaled = []string{"stages", "schedule", "reduction", "replicas", "shard", "profile", "watch", "fault", "device-memory", "host-memory", "spill-dir"}

// check refuses flags that say nothing or two things.
func (f *scalingFlags) check(c *cobra.Command, names []string) error {
	if !f.on {
		if c.Flags().Changed("svg") {
			return cli.Usagef("--svg draws the results of --scaling; give --scaling too, or leave --svg out")
		}
		return nil
	}
	for _, name := range notScaled {
		if c.Flags().Changed(name) {
			return cli.Usagef("--scaling and --%s exclude each other; give one", name)
		}
	}
	if len(names) > 1 {
		return cli.Usagef("--scaling measures one workload: name one of %s", strings.Join(names, ", "))
	}
	return nil
}

// defaults fills in the options that are not given.
func (f *scalingFlags) defaults(c *cobra.Command, o *bench.RunOptions) {
	if !c.Flags().Changed("devices") {
		o.Devices = fmt.Sprintf("cpu:%d", min(4, max(2, runtime.NumCPU())))
	}
	if !c.Flags().Changed("microbatches") {
		o.Microbatches = 8
	}
}

// run measures, prints and draws.
func (f *scalingFlags) run(c *cobra.Command, names []string, o bench.RunOptions, asJSON bool) error {
	f.defaults(c, &o)
	ws, err := workload(c, append(names, "gpt-small")[0])
	if err != nil {
		return err
	}
	w := ws[len(ws)-1] // of several buckets, that of the longest samples
	if f.svg != "" {
		if err := rundir.CheckOutput(f.svg, ""); err != nil {
			return fmt.Errorf("--svg %w", err)
		}
	}
	s, err := bench.MeasureScaling(c.Context(), w, o, func(text string) { fmt.Fprint(c.ErrOrStderr(), text) })
	if err != nil {
		return usageOf(err)
	}
	if f.svg != "" {
		err := rundir.WriteOutput(f.svg, func(w io.Writer) error {
			_, err := io.WriteString(w, s.SVG())
			return err
		})
		if err != nil {
			return err
		}
	}
	return printResults(c, s, asJSON, bench.WriteScaling)
}
