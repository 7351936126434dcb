package train

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// Report is the outcome of a run: report.json. Its names are stable.
type Report struct {
	Steps         int              `json:"steps"`
	Epochs        int              `json:"epochs"`   // finished
	Finished      bool             `json:"finished"` // the run is over: all of its steps are taken, or it stopped early
	Parameters    int64            `json:"parameters"`
	Losses        []float64        `json:"losses"` // of every logged step
	Final         Final            `json:"final"`
	Best          *Best            `json:"best,omitempty"` // nil where no checkpoint has a value of checkpoint.best
	Test          *Test            `json:"test,omitempty"` // nil before the run's last step, and without a test part
	Throughput    Throughput       `json:"throughput"`
	Ledger        LedgerReport     `json:"ledger"`
	Copies        CopyReport       `json:"copies"`
	Devices       []DeviceReport   `json:"devices"`
	HostMemory    *HostReport      `json:"host_memory,omitempty"` // with a bound on it
	Executables   ExecutableReport `json:"executables"`
	Stages        int              `json:"stages"`
	Replicas      int              `json:"replicas"`
	Reduction     string           `json:"reduction"` // order or tree
	Microbatches  int              `json:"microbatches"`
	Schedule      string           `json:"schedule"`
	Balance       *BalanceReport   `json:"balance,omitempty"` // nil: replicas kept their shares
	Bubble        Bubble           `json:"bubble"`
	Checkpoints   SaveReport       `json:"checkpoints"`
	WeightsSHA256 string           `json:"weights_sha256"`
	MetricsLost   *rundir.Lost     `json:"metrics_lost,omitempty"`  // lines that metrics.jsonl lacks
	Ranks         []RankReport     `json:"ranks,omitempty"`         // nil: one process trained
	DeviceLosses  []DeviceLoss     `json:"device_losses,omitempty"` // in this call
	SuspendedS    float64          `json:"suspended_s,omitempty"`   // for which this call stood still, since the loss of a device if there was one
	Allowed       []string         `json:"allowed,omitempty"`       // with AssertResident: the transfers between host and devices
}

// ExecutableReport is a call's executables.
type ExecutableReport struct {
	session.Executables
	Seconds float64 `json:"seconds"` // that the call took to get them
	// With devices.compile: beside, which compiles while steps run: the first step of training after the newest
	// change from op by op to compiled, and the reasons why segments stayed op by op.
	From    int      `json:"compiled_from_step,omitempty"`
	Refused []string `json:"refused,omitempty"`
}

// DeviceLoss is the loss of a device that the run went on without.
type DeviceLoss struct {
	Device  device.ID `json:"device"`
	Cause   string    `json:"cause"`
	Step    int       `json:"step"`        // that failed; 0: it was before the first one, or between two
	Resumed int       `json:"resumed"`     // the step that the run went on from
	Again   int       `json:"steps_again"` // steps after Resumed that had ended before the loss was found, and were taken again
	// WrittenOff is the bytes of the buffers that the device had when it was lost; 0:
	// it gave them back.
	WrittenOff int64 `json:"written_off_bytes"`
}

// Final are the newest boundary's metrics; nil where there is none. Before the
// first boundary, the training loss is the mean of the losses so far. Imported
// weights have the validation's metrics alone, until the next boundary.
type Final struct {
	TrainLoss   *float64       `json:"train_loss"`
	ValLoss     *float64       `json:"val_loss"`
	ValAccuracy *float64       `json:"val_accuracy"`
	Metrics     metrics.Values `json:"metrics,omitempty"` // of the validation part (train.metrics)
}

// Best is the best checkpoint of the run folder.
type Best struct {
	Checkpoint uint64             `json:"checkpoint"`
	Step       int                `json:"step"`
	Metric     string             `json:"metric"`  // by which it is the best
	Metrics    map[string]float64 `json:"metrics"` // of its boundary, those that are defined, by their names in metrics.jsonl
}

// Test are the loss and the metrics over the test part.
type Test = rundir.Test

// Throughput is over all training steps, without evaluation and checkpoints.
type Throughput struct {
	SamplesPerS float64 `json:"samples_per_s"`
	TokensPerS  float64 `json:"tokens_per_s"` // samples times the targets of a sample
	StepMSP50   float64 `json:"step_ms_p50"`
	StepMSP95   float64 `json:"step_ms_p95"`
}

// LedgerReport counts the bytes that moved.
type LedgerReport struct {
	CopyInBytes       int64            `json:"copy_in_bytes"`
	CopyInWeightBytes int64            `json:"copy_in_weight_bytes"`
	PeerBytes         int64            `json:"peer_bytes"`
	PullBackBytes     int64            `json:"pull_back_bytes"`
	SpillBytes        int64            `json:"spill_bytes"`
	ByReason          map[string]int64 `json:"by_reason"`
	SteadyState       SteadyState      `json:"steady_state"`
}

// SteadyState is the median of bytes per step, over all steps but the first.
type SteadyState struct {
	CopyInBytesPerStep   int64 `json:"copy_in_bytes_per_step"`
	BatchBytesPerStep    int64 `json:"batch_bytes_per_step"`
	PullBackBytesPerStep int64 `json:"pull_back_bytes_per_step"`
	SpillBytesPerStep    int64 `json:"spill_bytes_per_step"`
}

// CopyReport is the time of copies to, from and between devices in a step, on
// average over all training steps, and the number of those that failed.
type CopyReport struct {
	HiddenMS  float64 `json:"hidden_ms_per_step"`  // while their device computed
	ExposedMS float64 `json:"exposed_ms_per_step"` // while it did not
	Failed    int     `json:"failed"`              // in all; each was taken again
}

// HiddenShare is the part of the copies' time in which their device computed; 1 if there were none.
func (c *CopyReport) HiddenShare() float64 {
	if c.HiddenMS+c.ExposedMS == 0 {
		return 1
	}
	return c.HiddenMS / (c.HiddenMS + c.ExposedMS)
}

// DeviceReport is a device's memory.
type DeviceReport struct {
	ID           device.ID        `json:"id"`
	Threads      int              `json:"threads"`
	BudgetBytes  int64            `json:"budget_bytes"`
	PeakBytes    int64            `json:"peak_bytes"`
	SharedBytes  int64            `json:"shared_bytes,omitempty"` // of the peak: an adapter's base, which other runs on shared devices have, too
	PlannedBytes int64            `json:"planned_peak_bytes"`     // of a step without a limit
	FloorBytes   int64            `json:"floor_bytes"`            // the least budget for which a step is planned
	Evict        string           `json:"evict"`                  // the tensors that leave first: next-use, or own for the device's own policy
	ByUsage      map[string]int64 `json:"by_usage"`               // each usage's own peak
}

// RankReport is one of several processes that trained together.
type RankReport struct {
	Rank      int        `json:"rank"`
	Machine   string     `json:"machine"`
	WorkingS  float64    `json:"working_s"`            // for which its devices worked in steps, together
	WaitingS  float64    `json:"waiting_s"`            // for which they did not
	WaitedFor []RankWait `json:"waited_for,omitempty"` // by the other rank
	SentBytes int64      `json:"sent_bytes"`           // to other ranks, of all kinds
	PeakBytes int64      `json:"peak_bytes"`           // of its devices, together
}

// RankWait is how long a rank waited for another one.
type RankWait struct {
	Rank    int     `json:"rank"`
	Seconds float64 `json:"seconds"` // counted 50 times a second
}

// HostReport is the host memory that a bound counts: of tensors that are not on a
// device, batches and saves. On shared devices, it is that of all runs on them.
type HostReport struct {
	BoundBytes    int64 `json:"bound_bytes"`
	PeakBytes     int64 `json:"peak_bytes"`      // the most in memory
	FileBytes     int64 `json:"file_bytes"`      // the room that the file for the rest has on its disk
	FilePeakBytes int64 `json:"file_peak_bytes"` // the most of it that tensors took
}

// Bubble is the share of time, from 0 to 1, that devices idle in a step.
type Bubble struct {
	Simulated float64 `json:"simulated"` // as the plan predicts
	Measured  float64 `json:"measured"`
}

// SaveReport measures this call's checkpoints, on average.
type SaveReport struct {
	Count       int     `json:"count"`
	Staging     string  `json:"staging"` // "whole", or the bound in bytes
	Bytes       int64   `json:"bytes"`   // of the state
	SaveMS      float64 `json:"save_ms"` // from the step boundary until the checkpoint was on the disk and old ones were deleted
	MBPerS      float64 `json:"mb_per_s"`
	CopyMS      float64 `json:"copy_ms"`  // from the step boundary until the state was copied
	StallMS     float64 `json:"stall_ms"` // training stood still: at the boundary, and for copies in the step after it
	StepsBeside int     `json:"steps_beside"`
	Slowdown    float64 `json:"slowdown"` // of the steps during a save: 0.1 is a tenth longer than the median of the others
}

// addLost adds the lines that an earlier call's report says are lost; first is
// the number of steps taken before this call.
func (r *Report) addLost(text []byte, first int) {
	var old Report
	if json.Unmarshal(text, &old) == nil {
		r.MetricsLost = r.MetricsLost.After(old.MetricsLost, first)
	}
}

// repeat takes the measurements of an earlier call's report, if that has the same
// steps and weights.
func (r *Report) repeat(text []byte) {
	var old Report
	if json.Unmarshal(text, &old) != nil || old.Steps != r.Steps || old.WeightsSHA256 != r.WeightsSHA256 {
		return
	}
	r.Throughput, r.Bubble, r.Ledger, r.Copies, r.Checkpoints, r.Ranks, r.Balance = old.Throughput, old.Bubble, old.Ledger, old.Copies, old.Checkpoints, old.Ranks, old.Balance
}

// meanOf is the mean of some losses.
func meanOf(losses []float64) (mean float64) {
	for _, l := range losses {
		mean += l / float64(len(losses))
	}
	return mean
}

// throughputOf reports a clock; tokens is the mean number of a sample's targets.
func throughputOf(c *trace.Clock, tokens float64) Throughput {
	perS := c.Throughput()
	return Throughput{
		SamplesPerS: perS, TokensPerS: perS * tokens,
		StepMSP50: c.Percentile(50), StepMSP95: c.Percentile(95),
	}
}

// bubbleOf compares a prediction with a clock.
func bubbleOf(c *trace.Clock, p *partition.Prediction) Bubble {
	return Bubble{Simulated: p.Bubble, Measured: c.Bubble()}
}

// savesOf is the mean of a call's saves of a state of so many bytes.
func savesOf(s saver.Stats, c trace.Saves, bound saver.Bound, state int64) SaveReport {
	r := SaveReport{Count: s.Count, Staging: "whole", Bytes: state, StepsBeside: c.Beside}
	if bound > 0 {
		r.Staging = strconv.FormatInt(int64(bound), 10)
	}
	if s.Count == 0 {
		return r
	}
	mean := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(s.Count) }
	r.SaveMS, r.CopyMS, r.StallMS = mean(s.Time), mean(s.Copy), mean(s.Stall)
	r.MBPerS = float64(r.Bytes) / 1e3 / r.SaveMS
	r.StallMS += c.StallMS * float64(c.First) / float64(s.Count)
	r.Slowdown = c.Slowdown
	return r
}

// ledgerOf reports a ledger; batch is the size of a full step's batch.
func ledgerOf(l *ledger.Ledger, batch int64) LedgerReport {
	steady := l.SteadyState()
	rep := LedgerReport{
		CopyInBytes:       l.Total(ledger.CopyIn).Bytes + l.Total(ledger.StreamIn).Bytes,
		CopyInWeightBytes: l.OfUsage(ledger.CopyIn, device.Weight).Bytes,
		PeerBytes:         l.Total(ledger.Peer).Bytes,
		PullBackBytes:     l.Total(ledger.PullBack).Bytes,
		SpillBytes:        l.Total(ledger.Spill).Bytes,
		ByReason:          map[string]int64{},
		SteadyState: SteadyState{
			CopyInBytesPerStep: steady.CopyIn.Median, PullBackBytesPerStep: steady.PullBack.Median,
			SpillBytesPerStep: steady.Spill.Median, BatchBytesPerStep: batch,
		},
	}
	for _, r := range ledger.Reasons() {
		if n := l.OfReason(r).Bytes; n > 0 {
			rep.ByReason[string(r)] = n
		}
	}
	return rep
}

// hostOf reports host memory; nil without a bound.
func hostOf(m hostmem.Usage) *HostReport {
	if m.Bound == 0 {
		return nil
	}
	return &HostReport{BoundBytes: m.Bound, PeakBytes: m.Peak, FileBytes: m.Spilled, FilePeakBytes: m.InFile}
}

// copiesOf is a step's part of the time of copies.
func copiesOf(t trace.CopyTime, c *trace.Clock, failed int) CopyReport {
	perStep := 1e3 / float64(max(1, c.Steps()))
	return CopyReport{HiddenMS: t.Hidden.Seconds() * perStep, ExposedMS: t.Exposed.Seconds() * perStep, Failed: failed}
}

// deviceReports reports the memory of devices that a run took, which rt shares with others, and what the
// plans of its steps say of it.
func deviceReports(s *session.Session, rt *executor.Runtime, planned []partition.Forecast, taken []device.Stats) []DeviceReport {
	var out []DeviceReport
	for i, d := range s.Devices {
		spec, st := d.Spec(), taken[i]
		r := DeviceReport{
			ID: spec.ID, Evict: evictOf(d), Threads: spec.Threads,
			BudgetBytes: spec.MemoryBytes, PeakBytes: st.Peak, SharedBytes: rt.BaseBytes(i), ByUsage: map[string]int64{},
		}
		for u := range device.NumUsages {
			r.ByUsage[device.Usage(u).String()] = st.PeakBy[u]
		}
		for j := range planned {
			if f := &planned[j]; f.Device == i {
				r.PlannedBytes, r.FloorBytes = f.Peak, f.Floor
			}
		}
		out = append(out, r)
	}
	return out
}

// evictOf words the policy by which tensors leave a device.
func evictOf(d device.Device) string {
	if device.EvictorOf(d) != nil {
		return "own"
	}
	return "next-use"
}
