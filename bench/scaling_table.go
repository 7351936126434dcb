package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/berth-ml/berth/partition"
)

// WriteScaling prints a table, a line for each way, under a line that names the machine.
func WriteScaling(w io.Writer, s Scaling) error {
	m := s.Machine
	each := 0
	if len(s.Ways) > 0 {
		each = s.Ways[0].Threads
	}
	fmt.Fprintf(w, "%s: %s, batch %d in %d microbatches\n%s, %s for each device, %s, %s, commit %s\n\n",
		s.Workload, s.About, s.Batch, s.Microbatches, m.CPU, threads(each), s.Numerics, m.Go, m.Commit)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "DEVICES\tSCHEDULE\tREPLICAS\tSHARD\tSTEP ms\tPREDICTED\tSPEED-UP\tPREDICTED\tBUBBLE\tSIMULATED\tKERNELS ms\tBESIDE ms\tBETWEEN MiB\t")
	for _, x := range s.Ways {
		schedule, shard := x.Schedule, "-"
		if x.Stages == 1 {
			schedule = "-"
		}
		if x.Shard != partition.ShardNone {
			shard = string(x.Shard)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f%%\t%.0f%%\t%.2f\t%.2f\t%.2f\t\n", x.Devices, schedule, x.Replicas, shard,
			x.StepMS, x.PredictedMS, x.SpeedUp, x.PredictedSpeedUp, 100*x.BubbleMeasured, 100*x.BubbleSimulated, x.KernelMS, x.BesideMS, mib(x.PeerBytes))
	}
	return t.Flush()
}
