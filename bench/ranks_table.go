package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// writeRanks prints who trained together, the predicted step beside the measured one, and what each rank does in a step.
func writeRanks(w io.Writer, rs []Result, width int) error {
	rs = slices.DeleteFunc(slices.Clone(rs), func(r Result) bool { return r.Ranks == nil })
	if len(rs) == 0 {
		return nil
	}
	steps := [][]string{{"WORKLOAD", "STEP", "PREDICTED", "PREDICTED/STEP", "LATENCY", "RATE"}}
	each := [][]string{{"WORKLOAD", "RANK", "WORKS", "PREDICTED", "WAITS", "PREDICTED", "SENDS", "PREDICTED", "FOR"}}
	for _, r := range rs {
		x := r.Ranks
		row := append([]string{r.Name}, times(r.StepMS.Median, x.PredictedMS)...)
		steps = append(steps, append(row, fmt.Sprintf("%.2f", x.PredictedOfMeasured), linkTime(x.LatencyUS/1e3), fmt.Sprintf("%.3g GB/s", x.BytesPerS/1e9)))
		for _, k := range few(x.Each) {
			name := fmt.Sprint(k.Rank)
			if x.Machines > 1 {
				name += " (" + k.Machine + ")"
			}
			row := append([]string{r.Name, name}, times(k.WorksMS, k.PredictedWorksMS, k.WaitsMS, k.PredictedWaitsMS)...)
			each = append(each, slices.Concat(row, sizes(k.SentBytes, k.PredictedSentBytes), []string{waitedFor(k.WaitedFor)}))
		}
	}
	first := rs[0].Ranks
	_, err := fmt.Fprintf(w, "\n%s on %s, by %s. Times and bytes are of a step.\n\n%s\n%s", units.Count(len(first.Each), "rank"), units.Count(first.Machines, "machine"),
		first.Library, numbers(steps, width, 4, 5), numbers(each, width, 7, 5, 3))
	return err
}

// few are all ranks, or of many the first, the one that works longest and the one that waits longest.
func few(all []Rank) []Rank {
	if len(all) <= partition.FewRanks {
		return all
	}
	works := slices.MaxFunc(all, func(a, b Rank) int { return cmp.Compare(a.WorksMS, b.WorksMS) })
	waits := slices.MaxFunc(all, func(a, b Rank) int { return cmp.Compare(a.WaitsMS, b.WaitsMS) })
	list := []Rank{all[0], works, waits}
	slices.SortFunc(list, func(a, b Rank) int { return a.Rank - b.Rank })
	return slices.CompactFunc(list, func(a, b Rank) bool { return a.Rank == b.Rank })
}

// waitedFor says for which ranks one waited, the longest first: "1 for 12 ms".
func waitedFor(list []Waited) string {
	if len(list) == 0 {
		return "-"
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b Waited) int { return cmp.Compare(b.MS, a.MS) })
	var texts []string
	for _, x := range list[:min(len(list), mostWaited)] {
		texts = append(texts, fmt.Sprintf("%d for %s", x.Rank, units.Milliseconds(x.MS)))
	}
	return strings.Join(texts, ", ")
}

// mostWaited is the most ranks that waitedFor names.
const mostWaited = 2
