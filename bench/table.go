package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable prints results as a table, a line each, under a line that names the
// machine and the devices. A second table has the workloads that a limit on device
// memory makes move tensors.
func WriteTable(w io.Writer, rs []Result) error {
	if len(rs) == 0 {
		return nil
	}
	writeMachine(w, rs[0].Machine, rs[0].Devices, rs[0].Numerics, rs[0].Threads)
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "WORKLOAD\tSTEPS\tMEDIAN ms\tP95\tMIN\tSAMPLES/s\tTOKENS/s\tGFLOP/s\tOF PEAK\tALLOCS/STEP\tARENA MiB\tRESIDENT MiB\t")
	for _, r := range rs {
		tokens := "-"
		if r.TokensPerS > 0 {
			tokens = fmt.Sprintf("%.0f", r.TokensPerS)
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t%.1f\t%.0f%%\t%.1f\t%.1f\t%.1f\t\n",
			r.Name, r.Steps, r.StepMS.Median, r.StepMS.P95, r.StepMS.Min, r.SamplesPerS, tokens,
			r.Gflops, 100*r.PeakFraction, r.AllocsPerStep, mib(r.Arena.Total), mib(r.PeakResidentBytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeMoves(w, rs)
}

// writeMachine prints a line that names the machine and the devices.
func writeMachine(w io.Writer, m Machine, devices []string, numerics string, n int) {
	on := append(slices.Clone(devices), numerics)
	fmt.Fprintf(w, "%s, %s on %s, %s, commit %s\n", m.CPU, threads(n), strings.TrimSpace(strings.Join(on, " ")), m.Go, m.Commit)
}

// writeMoves prints, for workloads whose steps move tensors for want of device
// memory, the bytes and the time of it, a line each.
func writeMoves(w io.Writer, rs []Result) error {
	rs = slices.DeleteFunc(slices.Clone(rs), func(r Result) bool { return r.Copies.LoadedBytes+r.Copies.SpilledBytes == 0 })
	if len(rs) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nMoved in a step for want of device memory. Copies are hidden while their device computes, and exposed while it does not.")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "WORKLOAD\tPEAK MiB\tLIMIT MiB\tFLOOR MiB\tLOADED MiB\tSPILLED MiB\tHIDDEN ms\tEXPOSED ms\t")
	for _, r := range rs {
		var peak, limit, floor int64
		for _, m := range r.Memory {
			peak, limit, floor = peak+m.Peak, limit+m.Limit, floor+m.Floor
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", r.Name, mib(peak), mib(limit), mib(floor),
			mib(r.Copies.LoadedBytes), mib(r.Copies.SpilledBytes), r.Copies.HiddenMS, r.Copies.ExposedMS)
	}
	return t.Flush()
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// WriteProfile prints a step's time by kinds of kernels, a line each.
func WriteProfile(w io.Writer, r Result) error {
	fmt.Fprintf(w, "\n%s: %.2f ms a step\n\n", r.Name, r.StepMS.Median)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "KERNEL\tCALLS\tms\tSHARE\tGFLOP/s\tGB/s\t")
	for _, k := range r.Profile {
		fmt.Fprintf(t, "%s\t%.0f\t%.3f\t%.1f%%\t%.1f\t%.1f\t\n", k.Kind, k.Calls, k.MS, 100*k.Share, k.Gflops, k.GBytesPerS)
	}
	return t.Flush()
}
