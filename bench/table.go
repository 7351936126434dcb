package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// WriteTable prints results as two tables, a line each, under a line that names the
// machine and the devices: the speed of a step, and its memory. A third table has the
// workloads that a limit on device memory makes move tensors. Tables have lines of width
// characters.
func WriteTable(w io.Writer, rs []Result, width int) error {
	if len(rs) == 0 {
		return nil
	}
	writeMachine(w, rs[0].Machine, rs[0].Devices, arithmetic(rs[0].Numerics, rs[0].Precision), rs[0].Threads)
	fmt.Fprintln(w)
	speeds := [][]string{{"WORKLOAD", "STEPS", "MEDIAN", "P95", "MIN", "SAMPLES/s", "TOKENS/s", "GFLOP/s", "OF PEAK"}}
	memory := [][]string{{"WORKLOAD", "ALLOCS/STEP", "ARENA", "RESIDENT"}}
	for _, r := range rs {
		row := append([]string{r.Name, units.Thousands(r.Steps)}, times(r.StepMS.Median, r.StepMS.P95, r.StepMS.Min)...)
		row = append(row, units.Rate(r.SamplesPerS))
		if r.TokensPerS > 0 {
			row = append(row, units.Rate(r.TokensPerS))
		} else {
			row = append(row, "-")
		}
		speeds = append(speeds, append(row, units.Number(r.Gflops), percent(r.PeakFraction)))
		memory = append(memory, append([]string{r.Name, units.Number(r.AllocsPerStep)}, sizes(r.Arena.Total, r.PeakResidentBytes)...))
	}
	if _, err := fmt.Fprintf(w, "%s\n%s", numbers(speeds, width, 4, 3, 7), numbers(memory, width)); err != nil {
		return err
	}
	return cmp.Or(writeMoves(w, rs, width), writeLooks(w, rs, width), writeRanks(w, rs, width))
}

// arithmetic names the kernels, and the format of products where that is not float32.
func arithmetic(numerics, precision string) string {
	if precision == bf16Name {
		return numerics + " in bf16"
	}
	return numerics
}

// writeMachine prints a line that names the machine and the devices.
func writeMachine(w io.Writer, m Machine, devices []string, numerics string, n int) {
	on := append(slices.Clone(devices), numerics)
	fmt.Fprintf(w, "%s, %s on %s, %s, commit %s\n", m.CPU, units.Count(n, "thread"), strings.TrimSpace(strings.Join(on, " ")), m.Go, m.Commit)
}

// writeMoves prints, for workloads whose steps move tensors for want of device
// memory, the bytes and the time of it, a line each.
func writeMoves(w io.Writer, rs []Result, width int) error {
	rs = slices.DeleteFunc(slices.Clone(rs), func(r Result) bool { return r.Copies.LoadedBytes+r.Copies.SpilledBytes == 0 })
	if len(rs) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nMoved in a step for want of device memory. Copies are hidden while their device computes, and exposed while it does not.")
	rows := [][]string{{"WORKLOAD", "PEAK", "LIMIT", "FLOOR", "LOADED", "SPILLED", "HIDDEN", "EXPOSED"}}
	for _, r := range rs {
		var peak, limit, floor int64
		for _, m := range r.Memory {
			peak, limit, floor = peak+m.Peak, limit+m.Limit, floor+m.Floor
		}
		row := append([]string{r.Name}, sizes(peak, limit, floor, r.Copies.LoadedBytes, r.Copies.SpilledBytes)...)
		rows = append(rows, append(row, times(r.Copies.HiddenMS, r.Copies.ExposedMS)...))
	}
	_, err := io.WriteString(w, numbers(rows, width, 3, 6))
	return err
}

// numbers lays out a table of numbers beside the names of the first column, in lines of
// width characters. Where it is wider, the columns of drop are left out.
func numbers(rows [][]string, width int, drop ...int) string {
	l := columns.Layout{Cut: []int{0}, Drop: drop, Width: width}
	for i := range rows[0] {
		l.Right = append(l.Right, i)
	}
	return columns.Format(rows, l)
}

// times are cells of times in milliseconds.
func times(ms ...float64) (cells []string) {
	for _, v := range ms {
		cells = append(cells, units.Milliseconds(v))
	}
	return cells
}

// sizes are cells of numbers of bytes.
func sizes(bytes ...int64) (cells []string) {
	for _, n := range bytes {
		cells = append(cells, units.Bytes(n))
	}
	return cells
}

// percent is a share as 12%.
func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// WriteProfile prints a step's time by kinds of kernels, a line each of width characters.
func WriteProfile(w io.Writer, r Result, width int) error {
	fmt.Fprintf(w, "\n%s: %s a step\n\n", r.Name, units.Milliseconds(r.StepMS.Median))
	rows := [][]string{{"KERNEL", "CALLS", "TIME", "SHARE", "GFLOP/s", "GB/s"}}
	for _, k := range r.Profile {
		rows = append(rows, []string{
			k.Kind, units.Number(k.Calls), units.Milliseconds(k.MS), fmt.Sprintf("%.1f%%", 100*k.Share), units.Number(k.Gflops), units.Number(k.GBytesPerS),
		})
	}
	_, err := io.WriteString(w, numbers(rows, width))
	return err
}
