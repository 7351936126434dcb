package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// closing is how a run's outcome is printed.
type closing struct {
	dir     string // the run folder; "" if it is removed
	verbose bool   // with times, transfers and the weights' hash
	next    bool   // with the next command: no error names one
}

// printReport prints a run's outcome: its best checkpoint, where it is, and the next
// command.
func printReport(out io.Writer, run *berth.Run, r *berth.Report, c closing) {
	room := console.Room(out)
	fmt.Fprintln(out, wrapped(numbersOfBest(run, r, c.dir), room))
	if r.Test != nil {
		fmt.Fprintln(out, wrapped(numbersOfTest(r.Test), room))
	}
	if c.verbose {
		printDetails(out, run, r)
	}
	for _, a := range r.Allowed {
		fmt.Fprintln(out, "allowed: "+shortened(a))
	}
	fmt.Fprintf(out, "run folder %s\n", columns.Printed(c.dir))
	if c.next {
		fmt.Fprintf(out, "next: %s\n", nextCommand(run, r, columns.Printed(c.dir)))
	}
}

// numbersOfBest are the best checkpoint and its metrics; without one, the last checkpoint in
// the run folder and the loss of the training part.
func numbersOfBest(run *berth.Run, r *berth.Report, dir string) string {
	b := r.Best
	if b == nil {
		line := units.Count(r.Steps, "step")
		if m, err := rundir.Newest(dir); err == nil { // else nothing was saved
			line = fmt.Sprintf("last: checkpoint %d of step %d", m.ID, m.Step)
		}
		if v := r.Final.TrainLoss; v != nil {
			line += ", loss " + text.Loss(*v)
		}
		return line + numbersOfFinal(run, r)
	}
	line := fmt.Sprintf("best: checkpoint %d of step %d", b.Checkpoint, b.Step)
	var loss, accuracy *float64
	others := metrics.Values{}
	for name, v := range b.Metrics {
		switch metric, validated := strings.CutPrefix(name, configs.ValPrefix); {
		case name == "val_loss":
			loss = &v
		case name == "val_accuracy":
			accuracy = &v
		case validated || name == b.Metric:
			others[metric] = v
		}
	}
	return line + numbersOfValidation(run, loss, accuracy, others)
}

// numbersOfFinal are the loss and the metrics of the validation part at the end of a run.
func numbersOfFinal(run *berth.Run, r *berth.Report) string {
	return numbersOfValidation(run, r.Final.ValLoss, r.Final.ValAccuracy, r.Final.Metrics)
}

// numbersOfValidation are a validation's loss and metrics, each behind a comma.
func numbersOfValidation(run *berth.Run, loss, accuracy *float64, m metrics.Values) (line string) {
	rmse := run.RMSE(loss)
	if loss != nil {
		line = ", val loss " + text.Loss(*loss) + text.RMSE(", ", rmse)
	}
	if accuracy != nil {
		line += ", accuracy " + text.Share(*accuracy)
	}
	return line + text.Metrics(", ", m.Names(), m, map[string]*float64{"accuracy": accuracy, "rmse": rmse})
}

// numbersOfTest are the loss and the metrics over the test part.
func numbersOfTest(t *berth.Test) string {
	line := fmt.Sprintf("test: %s, checkpoint %d, loss %s%s", units.Count(t.Samples, "sample"), t.Checkpoint, text.Loss(t.Loss), text.RMSE(", ", t.RMSE))
	if t.Accuracy != nil {
		line += ", accuracy " + text.Share(*t.Accuracy)
	}
	return line + text.Metrics(", ", t.Metrics.Names(), t.Metrics, map[string]*float64{"accuracy": t.Accuracy, "rmse": t.RMSE})
}

// nextCommand is what a user may do next with the run in a folder.
func nextCommand(run *berth.Run, r *berth.Report, dir string) string {
	switch info := run.Data.Info; {
	case !r.Finished:
		return "trainer resume " + dir
	case info.Chats:
		return "trainer generate " + dir + " --chat --prompt TEXT"
	case info.Tokenizer != nil && info.ClassNames == nil:
		return "trainer generate " + dir
	}
	return "trainer eval " + dir
}

// printDetails prints times, transfers and the weights' hash.
func printDetails(out io.Writer, run *berth.Run, r *berth.Report) {
	line := units.Count(r.Steps, "step")
	if r.Throughput.SamplesPerS > 0 { // 0: the run was over before it was resumed
		line += fmt.Sprintf(", %s, %s a step", text.Rate(r.Throughput.SamplesPerS, "sample"), units.Milliseconds(r.Throughput.StepMSP50))
	}
	fmt.Fprintln(out, wrapped(line+numbersOfFinal(run, r), console.Room(out)))
	if len(run.Plan().Devices()) > 1 && r.Throughput.SamplesPerS > 0 {
		fmt.Fprintf(out, "devices idle: %.0f%% of a step, %.0f%% in the plan\n", 100*r.Bubble.Measured, 100*r.Bubble.Simulated)
	}
	batch := "the batch"
	if run.Data.Train.Buckets() != nil {
		batch = "the largest batch"
	}
	printMoved(out, r, batch)
	if x := r.Executables; x.Compiled+x.Disk+x.Memory > 0 {
		fmt.Fprintf(out, "executables: %d compiled, %d from the disk and %d from memory, in %s\n", x.Compiled, x.Disk, x.Memory, units.Seconds(x.Seconds))
	}
	if from := r.Executables.From; from > 0 {
		but := ""
		if len(r.Executables.Refused) > 0 {
			but = ", but for the segments that cannot be compiled"
		}
		fmt.Fprintf(out, "op by op at first, compiled from step %d on%s\n", from, but)
	}
	fmt.Fprintf(out, "weights %s\n", r.WeightsSHA256)
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
		fmt.Fprintf(out, "spilled: %s in the median step, %s in all\ncopies: %s a step beside computing (%.0f%%), %s alone\n",
			units.Bytes(l.SteadyState.SpillBytesPerStep), units.Bytes(l.SpillBytes), units.Milliseconds(r.Copies.HiddenMS), 100*r.Copies.HiddenShare(), units.Milliseconds(r.Copies.ExposedMS))
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
