package ui

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/exposition"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/jobs/queue"
)

// metricsPath is where Prometheus asks.
const metricsPath = "/metrics"

// metrics answers GET /metrics: jobs and runs by state, who has memory, and steps, losses and waiting times of what is not over.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.bounded(r)
	defer cancel()
	s.board.fresh(ctx)
	s.memory.fresh(ctx)
	if err := ctx.Err(); err != nil {
		write(w, problemOf(err))
		return
	}
	var text bytes.Buffer
	p := exposition.Page{W: &text, Prefix: "berth_"}
	jobs, runs, told := s.board.shown()
	if told { // zeros would say that the queue is empty
		writeJobs(p, jobs, time.Now())
	}
	writeRuns(p, runs)
	if now := s.memory.newestNow(); now != nil {
		writeMemory(p, now)
	}
	w.Header().Set("Content-Type", exposition.ContentType)
	_, _ = w.Write(text.Bytes())
}

// shown are the jobs by number and the runs by folder, as the table has them. told is false where the jobs are not known.
func (b *board) shown() (jobs []queued.Record, runs []overview.Record, told bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.rows {
		if k.Job != nil {
			jobs = append(jobs, *k.Job)
		}
		if k.Run != nil {
			runs = append(runs, *k.Run)
		}
	}
	slices.SortFunc(jobs, func(a, b queued.Record) int { return a.ID - b.ID })
	slices.SortFunc(runs, func(a, b overview.Record) int { return strings.Compare(a.Run, b.Run) })
	return jobs, runs, b.told
}

// newestNow is who has memory; nil where it is not known.
func (m *memory) newestNow() *berth.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest().Now
}

// states are those of a job, each of which has a number.
var states = []queue.State{queue.Waiting, queue.Running, queue.Paused, queue.Finished, queue.Failed, queue.Cancelled}

// writeJobs writes all jobs by state, and more of those that are not over.
func writeJobs(p exposition.Page, jobs []queued.Record, now time.Time) {
	count := map[string]int{}
	var left []queued.Record
	for _, j := range jobs {
		count[j.State]++
		if !queue.State(j.State).Over() {
			left = append(left, j)
		}
	}
	p.Begin("jobs", exposition.Gauge, "Jobs of the queue by state.")
	for _, state := range states {
		p.Value("jobs", float64(count[string(state)]), "state", string(state))
	}
	of := func(name, help string, v func(j *queued.Record) (float64, bool)) {
		p.Begin(name, exposition.Gauge, help)
		for i := range left {
			if x, ok := v(&left[i]); ok {
				p.Value(name, x, "job", strconv.Itoa(left[i].ID), "name", left[i].Name)
			}
		}
	}
	of("job_steps", "Steps that a job has taken.", func(j *queued.Record) (float64, bool) { return float64(j.Step), j.Steps > 0 })
	of("job_planned_steps", "Steps of a whole job.", func(j *queued.Record) (float64, bool) { return float64(j.Steps), j.Steps > 0 })
	of("job_loss", "Newest loss of a job.", func(j *queued.Record) (float64, bool) {
		if j.Loss == nil {
			return 0, false
		}
		return *j.Loss, true
	})
	of("job_waiting_seconds", "Time that a job that waits for devices has waited since it was submitted, without that in which it trained or was paused.", func(j *queued.Record) (float64, bool) {
		return max(0, now.Sub(j.Since).Seconds()), !j.Since.IsZero()
	})
}

// writeRuns writes all runs by state, and more of those that train.
func writeRuns(p exposition.Page, runs []overview.Record) {
	count := map[string]int{}
	var training []overview.Record
	for _, r := range runs {
		count[r.State]++
		if r.State == string(rundir.Running) {
			training = append(training, r)
		}
	}
	p.Begin("runs", exposition.Gauge, "Run folders by state.")
	for _, state := range slices.Sorted(maps.Keys(count)) {
		p.Value("runs", float64(count[state]), "state", state)
	}
	p.Begin("run_steps", exposition.Gauge, "Steps that a run that trains has taken, as its folder has them.")
	for _, r := range training {
		p.Value("run_steps", float64(r.Step), "run", r.Run)
	}
	p.Begin("run_loss", exposition.Gauge, "Newest loss of a run that trains, by the part of the data.")
	for _, r := range training {
		for _, part := range []string{"train", "val"} {
			if loss, ok := r.Metrics[part+"_loss"]; ok {
				p.Value("run_loss", loss, "run", r.Run, "part", part)
			}
		}
	}
}

// writeMemory writes who has memory.
func writeMemory(p exposition.Page, m *berth.Memory) {
	sums := sampleOf(time.Time{}, *m).Devices
	p.Begin("device_memory_bytes", exposition.Gauge, "Memory of a device that tensors take, by usage.")
	for i := range m.Devices {
		for _, name := range usages {
			bytes := int64(0)
			for _, t := range m.Devices[i].Tenants {
				bytes += t.ByUsage[name]
			}
			p.Value("device_memory_bytes", float64(bytes), "device", m.Devices[i].ID, "usage", name)
		}
	}
	of := func(name, kind, help string, v func(d *deviceSample) int64) {
		p.Begin(name, kind, help)
		for i := range sums {
			p.Value(name, float64(v(&sums[i])), "device", sums[i].ID)
		}
	}
	of("device_memory_suspended_bytes", exposition.Gauge, "Memory of a device that suspended trainings have, among device_memory_bytes.", func(d *deviceSample) int64 { return d.Suspended })
	of("device_memory_limit_bytes", exposition.Gauge, "Memory of a device.", func(d *deviceSample) int64 { return d.Limit })
	of("device_memory_floor_bytes", exposition.Gauge, "Memory of a device that is reserved for the trainings that are not suspended.", func(d *deviceSample) int64 { return d.Floor })
	of("device_memory_peak_bytes", exposition.Gauge, "Memory of a device that the trainings that are not suspended take by their plans.", func(d *deviceSample) int64 { return d.Peak })
	of("device_copied_in_bytes_total", exposition.Counter, "Bytes that were copied to a device, from host memory or files.", func(d *deviceSample) int64 { return d.In })
	of("device_copied_out_bytes_total", exposition.Counter, "Bytes that were copied from a device to host memory.", func(d *deviceSample) int64 { return d.Out })
	of("device_spilled_bytes_total", exposition.Counter, "Bytes among device_copied_out_bytes_total that left since others needed the room.", func(d *deviceSample) int64 { return d.Spilled })
	p.Begin("host_memory_bytes", exposition.Gauge, "Host memory beside that of devices, by usage.")
	p.Value("host_memory_bytes", float64(m.Host.Tensors), "usage", "tensors")
	p.Value("host_memory_bytes", float64(m.Host.Data), "usage", "data")
	if m.Host.Limit > 0 {
		p.One("host_memory_limit_bytes", exposition.Gauge, "Host memory for all trainings together.", float64(m.Host.Limit))
	}
	p.One("host_file_bytes", exposition.Gauge, "Bytes of tensors in the file beyond the limit of host memory.", float64(m.Host.File))
}
