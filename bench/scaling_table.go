package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// WriteScaling prints two tables, a line for each way, under a line that names the
// machine: the times of a step, and their parts. They have lines of width characters.
func WriteScaling(w io.Writer, s Scaling, width int) error {
	m := s.Machine
	each := 0
	if len(s.Ways) > 0 {
		each = s.Ways[0].Threads
	}
	fmt.Fprintf(w, "%s: %s, batch %d in %d microbatches\n%s, %s for each device, %s, %s, commit %s\n\n",
		s.Workload, s.About, s.Batch, s.Microbatches, m.CPU, units.Count(each, "thread"), s.Numerics, m.Go, m.Commit)
	ways := []string{"DEVICES", "SCHEDULE", "REPLICAS", "SHARD"}
	speeds := [][]string{append(slices.Clone(ways), "STEP", "PREDICTED", "SPEED-UP", "PREDICTED")}
	parts := [][]string{append(slices.Clone(ways), "BUBBLE", "SIMULATED", "KERNELS", "BESIDE", "BETWEEN")}
	for _, x := range s.Ways {
		schedule, shard := x.Schedule, "-"
		if x.Stages == 1 {
			schedule = "-"
		}
		if x.Shard != partition.ShardNone {
			shard = string(x.Shard)
		}
		way := []string{fmt.Sprint(x.Devices), schedule, fmt.Sprint(x.Replicas), shard}
		speeds = append(speeds, slices.Concat(way, times(x.StepMS, x.PredictedMS), []string{speedUp(x.SpeedUp), speedUp(x.PredictedSpeedUp)}))
		idle := []string{percent(x.BubbleMeasured), percent(x.BubbleSimulated)}
		parts = append(parts, slices.Concat(way, idle, times(x.KernelMS, x.BesideMS), sizes(x.PeerBytes)))
	}
	_, err := fmt.Fprintf(w, "%s\n%s", numbers(speeds, width, 3), numbers(parts, width, 3, 5))
	return err
}

// speedUp is a speed-up as 1.80.
func speedUp(v float64) string { return fmt.Sprintf("%.2f", v) }
