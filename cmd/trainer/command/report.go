package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// numbersOfRun are the steps of a run, their time, and the loss and metrics at its end.
func numbersOfRun(run *berth.Run, r *berth.Report) string {
	line := text.Count(r.Steps, "step")
	if r.Throughput.SamplesPerS > 0 { // 0: the run was over before it was resumed
		line += fmt.Sprintf(", %.0f samples/s, %.2f ms a step", r.Throughput.SamplesPerS, r.Throughput.StepMSP50)
	}
	if v := r.Final.ValLoss; v != nil {
		line += fmt.Sprintf(", val loss %s%s", text.Loss(*v), text.RMSE(", ", run.RMSE(v)))
	}
	if v := r.Final.ValAccuracy; v != nil {
		line += fmt.Sprintf(", accuracy %.2f%%", 100**v)
	}
	m := r.Final.Metrics
	return line + text.Metrics(", ", m.Names(), m, map[string]*float64{"accuracy": r.Final.ValAccuracy, "rmse": run.RMSE(r.Final.ValLoss)})
}

// numbersOfTest are the loss and the metrics over the test part.
func numbersOfTest(t *berth.Test) string {
	line := fmt.Sprintf("test: %s, checkpoint %d, loss %s%s", text.Count(t.Samples, "sample"), t.Checkpoint, text.Loss(t.Loss), text.RMSE(", ", t.RMSE))
	if t.Accuracy != nil {
		line += fmt.Sprintf(", accuracy %.2f%%", 100**t.Accuracy)
	}
	return line + text.Metrics(", ", t.Metrics.Names(), t.Metrics, map[string]*float64{"accuracy": t.Accuracy, "rmse": t.RMSE})
}

// printReport prints a run's outcome.
func printReport(out io.Writer, run *berth.Run, r *berth.Report, dir string) {
	fmt.Fprintln(out, wrapped(numbersOfRun(run, r)))
	if r.Test != nil {
		fmt.Fprintln(out, wrapped(numbersOfTest(r.Test)))
	}
	if len(run.Plan().Devices()) > 1 && r.Throughput.SamplesPerS > 0 {
		fmt.Fprintf(out, "devices idle: %.0f%% of a step, %.0f%% in the plan\n", 100*r.Bubble.Measured, 100*r.Bubble.Simulated)
	}
	batch := "the batch"
	if run.Data.Train.Buckets() != nil {
		batch = "the largest batch"
	}
	printMoved(out, r, batch)
	if x := r.Executables; x.Seconds >= 1 {
		fmt.Fprintf(out, "executables: %d compiled, %d from the disk and %d from memory, in %.1f s\n", x.Compiled, x.Disk, x.Memory, x.Seconds)
	}
	if from := r.Executables.From; from > 0 {
		but := ""
		if len(r.Executables.Refused) > 0 {
			but = ", but for the segments that cannot be compiled"
		}
		fmt.Fprintf(out, "op by op at first, compiled from step %d on%s\n", from, but)
	}
	for _, a := range r.Allowed {
		fmt.Fprintf(out, "allowed: %s\n", shortened(a))
	}
	fmt.Fprintf(out, "weights %s\nrun folder %s\n", r.WeightsSHA256, columns.Printed(dir))
}

// printMoved prints the bytes copied into devices and out of them. batch names the batch
// whose size the report has.
func printMoved(out io.Writer, r *berth.Report, batch string) {
	l := r.Ledger
	in, perStep := "", ""
	if s := l.SteadyState; s.CopyInBytesPerStep > 0 { // there was more than one step
		in = fmt.Sprintf(", %s a step (%s has %s)", units.Bytes(s.CopyInBytesPerStep), batch, units.Bytes(s.BatchBytesPerStep))
		perStep = fmt.Sprintf("%s in the median step, ", units.Bytes(s.PullBackBytesPerStep))
	}
	once := " once"
	if l.SpillBytes > 0 { // and in again
		once = ""
	}
	fmt.Fprintf(out, "in: weights %s%s%s\nout: %s%s in all\n", units.Bytes(l.CopyInWeightBytes), once, in, perStep, units.Bytes(l.PullBackBytes))
	if l.SpillBytes > 0 {
		fmt.Fprintf(out, "spilled: %s in the median step, %s in all; copies took %.2f ms a step beside computing and %.2f ms alone\n", units.Bytes(l.SteadyState.SpillBytesPerStep), units.Bytes(l.SpillBytes), r.Copies.HiddenMS, r.Copies.ExposedMS)
	}
	if h := r.HostMemory; h != nil {
		fmt.Fprintf(out, "host memory: at most %s of %s, and %s in a file\n", units.Bytes(h.PeakBytes), units.Bytes(h.BoundBytes), units.Bytes(h.FilePeakBytes))
	}
}

// mostNames is the most tensors that a line names.
const mostNames = 5

// shortened cuts the tensors at the end of a transfer in words to the first ones;
// report.json has all.
func shortened(transfer string) string {
	before, names, planned := strings.Cut(transfer, "as planned: ")
	list := strings.Split(names, ", ")
	if !planned || len(list) <= mostNames+1 {
		return transfer
	}
	return fmt.Sprintf("%sas planned: %s and %d more", before, strings.Join(list[:mostNames], ", "), len(list)-mostNames)
}
