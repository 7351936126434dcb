package berth

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/residency"
)

// Report is what a run came to: report.json. Its names are stable.
type Report struct {
	Steps         int            `json:"steps"`
	Epochs        int            `json:"epochs"` // finished
	Parameters    int64          `json:"parameters"`
	Losses        []float64      `json:"losses"` // of every logged step
	Final         Final          `json:"final"`
	Throughput    Throughput     `json:"throughput"`
	Ledger        LedgerReport   `json:"ledger"`
	Devices       []DeviceReport `json:"devices"`
	Stages        int            `json:"stages"`
	Microbatches  int            `json:"microbatches"`
	Schedule      string         `json:"schedule"`
	Bubble        Bubble         `json:"bubble"`
	Checkpoints   SaveReport     `json:"checkpoints"`
	WeightsSHA256 string         `json:"weights_sha256"`
	Allowed       []string       `json:"allowed,omitempty"` // with AssertResident: what moved between host and devices
}

// Final are the newest epoch's metrics, nil where there is none. Before the
// first epoch ended, the training loss is the mean of the losses so far. Of
// imported weights there is the validation's alone, until an epoch ends.
type Final struct {
	TrainLoss   *float64 `json:"train_loss"`
	ValLoss     *float64 `json:"val_loss"`
	ValAccuracy *float64 `json:"val_accuracy"`
}

// Throughput is over all training steps, evaluation and checkpoints left out.
type Throughput struct {
	SamplesPerS float64 `json:"samples_per_s"`
	TokensPerS  float64 `json:"tokens_per_s"` // samples times the targets of a sample
	StepMSP50   float64 `json:"step_ms_p50"`
	StepMSP95   float64 `json:"step_ms_p95"`
}

// LedgerReport is the bytes that moved.
type LedgerReport struct {
	CopyInBytes       int64            `json:"copy_in_bytes"`
	CopyInWeightBytes int64            `json:"copy_in_weight_bytes"`
	PeerBytes         int64            `json:"peer_bytes"`
	PullBackBytes     int64            `json:"pull_back_bytes"`
	SpillBytes        int64            `json:"spill_bytes"`
	ByReason          map[string]int64 `json:"by_reason"`
	SteadyState       SteadyState      `json:"steady_state"`
}

// SteadyState is what the median step moves, the first left out.
type SteadyState struct {
	CopyInBytesPerStep   int64 `json:"copy_in_bytes_per_step"`
	BatchBytesPerStep    int64 `json:"batch_bytes_per_step"`
	PullBackBytesPerStep int64 `json:"pull_back_bytes_per_step"`
}

// DeviceReport is a device's memory.
type DeviceReport struct {
	ID          device.ID        `json:"id"`
	Threads     int              `json:"threads"`
	BudgetBytes int64            `json:"budget_bytes"`
	PeakBytes   int64            `json:"peak_bytes"`
	ByUsage     map[string]int64 `json:"by_usage"` // each usage's own peak
}

// Bubble is the share of time that devices idle in a step: by the schedule,
// and as it was.
type Bubble struct {
	Simulated float64 `json:"simulated"`
	Measured  float64 `json:"measured"`
}

// SaveReport is what this call's checkpoints took, on average.
type SaveReport struct {
	Count       int     `json:"count"`
	Staging     string  `json:"staging"` // whole, or the bytes of the area
	Bytes       int64   `json:"bytes"`   // of the state
	SaveMS      float64 `json:"save_ms"` // from the step boundary until it was on the disk, pruned and tidied
	MBPerS      float64 `json:"mb_per_s"`
	CopyMS      float64 `json:"copy_ms"`  // until the state was copied
	StallMS     float64 `json:"stall_ms"` // training stood: at the boundary, and waiting for copies in the step behind it
	StepsBeside int     `json:"steps_beside"`
	Slowdown    float64 `json:"slowdown"` // of the steps meanwhile: 0.1 is a tenth longer than the median of the others
}

// saveReport is the mean of this call's saves.
func (t *trainer) saveReport() SaveReport {
	s, c, devices := &t.saves, &t.clock.save, t.clock.devices
	r := SaveReport{Count: s.count, Staging: "whole", Bytes: t.stateBytes(), StepsBeside: c.nBeside}
	if s.bound > 0 {
		r.Staging = strconv.FormatInt(s.bound, 10)
	}
	if s.count == 0 {
		return r
	}
	mean := func(d time.Duration, n int) float64 { return d.Seconds() * 1e3 / float64(n) }
	r.SaveMS, r.CopyMS, r.StallMS = mean(s.sums.save, s.count), mean(s.sums.copy, s.count), mean(s.sums.stall, s.count)
	r.MBPerS = float64(r.Bytes) / 1e3 / r.SaveMS
	r.StallMS += c.stall(devices) * float64(c.nFirst) / float64(s.count)
	r.Slowdown = c.slowdown(devices)
	return r
}

// finish pulls the weights back, and writes the report. A call that found
// nothing to do has measured nothing, and repeats what the one before it did.
func (t *trainer) finish() (*Report, error) {
	ctx := context.Background()
	t.rt.Residency.Unseal()
	hash, err := t.prog.WeightsHash(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.Run.Schedule()
	if err != nil {
		return nil, err
	}
	final, err := t.final(ctx)
	if err != nil {
		return nil, err
	}
	rep := &Report{
		Steps: t.at.Step, Epochs: t.at.Epoch, Parameters: t.parameters(), Losses: t.losses,
		Final:      final,
		Throughput: t.throughput(), Ledger: t.ledger(), Devices: t.deviceReports(),
		Stages: len(t.Plan.Stages), Microbatches: t.sizes.microbatches, Schedule: s.Name,
		Bubble:        Bubble{s.Simulate(t.stageCost).Bubble, t.clock.bubble(t.usedDevices())},
		Checkpoints:   t.saveReport(),
		WeightsSHA256: hash,
	}
	for _, a := range t.rt.Residency.Allowed() {
		rep.Allowed = append(rep.Allowed, a.String())
	}
	if old := t.reportBefore(); t.at.Step == t.first && old != nil && old.Steps == rep.Steps && old.WeightsSHA256 == hash {
		rep.Throughput, rep.Bubble, rep.Ledger, rep.Checkpoints = old.Throughput, old.Bubble, old.Ledger, old.Checkpoints
	}
	return rep, t.writeReport(rep)
}

// reportBefore is the report that the run folder has, nil if there is none.
func (t *trainer) reportBefore() *Report {
	rep := &Report{}
	if json.Unmarshal(t.dir.Report(), rep) != nil {
		return nil
	}
	return rep
}

// final is what the report says of the run's end. Weights that were imported,
// and not trained since, are evaluated now.
func (t *trainer) final(ctx context.Context) (Final, error) {
	f := Final{t.at.Last.TrainLoss, t.at.Last.ValLoss, t.at.Last.ValAccuracy}
	if imported := t.at.Imported > 0 && t.at.Last.Step == 0; imported { // its losses so far are of other weights, too
		if t.eval == nil || t.at.Imported < t.at.Step {
			return f, nil
		}
		res, err := t.evaluate(ctx, func() string {
			return "import other weights, or export an older checkpoint and begin a run from it (--init)"
		})
		f.ValLoss, f.ValAccuracy = &res.Loss, res.Accuracy
		return f, err
	}
	if f.TrainLoss == nil && len(t.losses) > 0 {
		var mean float64
		for _, l := range t.losses {
			mean += l / float64(len(t.losses))
		}
		f.TrainLoss = &mean
	}
	return f, nil
}

func (t *trainer) throughput() Throughput {
	perS := t.clock.throughput()
	return Throughput{
		SamplesPerS: perS, TokensPerS: perS * float64(t.spec.Terms()),
		StepMSP50: t.clock.percentile(0.5), StepMSP95: t.clock.percentile(0.95),
	}
}

func (t *trainer) ledger() LedgerReport {
	l := t.rt.Residency.Ledger()
	steady := l.SteadyState()
	rep := LedgerReport{
		CopyInBytes:       l.Total(residency.CopyIn).Bytes + l.Total(residency.StreamIn).Bytes,
		CopyInWeightBytes: l.OfUsage(residency.CopyIn, device.Weight).Bytes,
		PeerBytes:         l.Total(residency.Peer).Bytes,
		PullBackBytes:     l.Total(residency.PullBack).Bytes,
		SpillBytes:        l.Total(residency.Spill).Bytes,
		ByReason:          map[string]int64{},
		SteadyState: SteadyState{
			CopyInBytesPerStep: steady.CopyIn.Median, PullBackBytesPerStep: steady.PullBack.Median,
			BatchBytesPerStep: t.batchBytes(),
		},
	}
	for _, r := range residency.Reasons() {
		if n := l.OfReason(r).Bytes; n > 0 {
			rep.ByReason[string(r)] = n
		}
	}
	return rep
}

// batchBytes is the size of what a full step is fed.
func (t *trainer) batchBytes() int64 {
	var n int64
	for _, v := range t.prog.Inputs() {
		n += v.Meta.Bytes() * int64(t.sizes.microbatches)
	}
	return n
}

func (t *trainer) deviceReports() []DeviceReport {
	var out []DeviceReport
	for _, d := range t.devs {
		spec, st := d.Spec(), d.Stats()
		r := DeviceReport{ID: spec.ID, Threads: spec.Threads, BudgetBytes: spec.MemoryBytes, PeakBytes: st.Peak, ByUsage: map[string]int64{}}
		for u := range device.NumUsages {
			r.ByUsage[device.Usage(u).String()] = st.PeakBy[u]
		}
		out = append(out, r)
	}
	return out
}

// usedDevices is how many devices have a stage.
func (t *trainer) usedDevices() int {
	used := map[int]bool{}
	for _, s := range t.Plan.Stages {
		used[s.Device] = true
	}
	return len(used)
}

// stageCost is what an action takes by its stage's arithmetic: a third of it
// forward, two thirds backward.
func (t *trainer) stageCost(a schedule.Action) float64 {
	flops := float64(t.Plan.Stages[a.Stage].Flops)
	switch a.Kind {
	case schedule.Forward:
		return flops / 3
	case schedule.Backward:
		return flops * 2 / 3
	}
	return 0
}

func (t *trainer) writeReport(rep *Report) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if err := t.dir.SetReport(b); err != nil {
		return err
	}
	if t.opt.Report == "" {
		return nil
	}
	return rundir.WriteOutput(t.opt.Report, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}
