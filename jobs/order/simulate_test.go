package order

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// arrival is a job of a simulation: Needs, Priority and Length are those of job, and
// true is what it really takes.
type arrival struct {
	at   time.Duration
	job  Job
	true time.Duration
}

// policy is Arrange, or a rival.
type policy func([]Job, []Device) []Place

// outcome is what a simulation measures.
type outcome struct {
	turnaround []time.Duration // of each arrival
	suspended  int
}

func (o outcome) mean() float64 {
	var sum float64
	for _, t := range o.turnaround {
		sum += t.Seconds()
	}
	return sum / float64(len(o.turnaround))
}

// simulated is the state of a simulation: the jobs that have come and not ended.
type simulated struct {
	jobs  []Job
	index []int           // of each of jobs in arrivals
	left  []time.Duration // what each really still takes
}

// run lets time pass from event to event: an arrival, an end, or a job that becomes overdue.
func run(arrivals []arrival, devices []Device, decide policy) (o outcome) {
	o.turnaround = make([]time.Duration, len(arrivals))
	var s simulated
	for now, next := time.Duration(0), 0; next < len(arrivals) || len(s.jobs) > 0; {
		for next < len(arrivals) && arrivals[next].at <= now {
			s.jobs, s.index = append(s.jobs, arrivals[next].job), append(s.index, next)
			s.left = append(s.left, arrivals[next].true)
			next++
		}
		o.suspended += s.place(decide(s.jobs, devices))
		step := time.Duration(math.MaxInt64)
		if next < len(arrivals) {
			step = arrivals[next].at - now
		}
		step = min(step, s.event())
		now += step
		s.pass(step)
		s.end(func(i int) { o.turnaround[i] = now - arrivals[i].at })
	}
	return o
}

func (s *simulated) place(places []Place) (suspended int) {
	for i, p := range places {
		j := &s.jobs[i]
		if j.Running && p.Devices == nil {
			suspended++
		}
		j.Running, j.Safe = p.Devices != nil, p.Safe
		if j.Running {
			j.On = p.Devices
		}
	}
	return suspended
}

func (s *simulated) event() time.Duration {
	step := time.Duration(math.MaxInt64)
	for i := range s.jobs {
		if j := &s.jobs[i]; j.Running {
			step = min(step, s.left[i])
		} else if !overdue(j) {
			step = min(step, patience(j)-j.Age+1)
		}
	}
	return step
}

// pass lets a running job's prediction shrink as its work does, so that an error of its length stays
// to the end.
func (s *simulated) pass(step time.Duration) {
	for i := range s.jobs {
		j := &s.jobs[i]
		j.Age += step
		if j.Running {
			part := float64(s.left[i]-step) / float64(s.left[i])
			s.left[i] -= step
			j.Left = time.Duration(math.Round(float64(j.Left) * part))
		}
	}
}

func (s *simulated) end(report func(arrival int)) {
	kept := 0
	for i := range s.jobs {
		if s.left[i] <= 0 {
			report(s.index[i])
			continue
		}
		s.jobs[kept], s.index[kept], s.left[kept] = s.jobs[i], s.index[i], s.left[i]
		kept++
	}
	s.jobs, s.index, s.left = s.jobs[:kept], s.index[:kept], s.left[:kept]
}

// byOrder is a rival for jobs of one device: the first ones by an order of its own run.
func byOrder(before func(a, b *Job) int) policy {
	return func(jobs []Job, devices []Device) []Place {
		line := make([]int, len(jobs))
		for i := range line {
			line[i] = i
		}
		slices.SortFunc(line, func(a, b int) int { return before(&jobs[a], &jobs[b]) })
		places := make([]Place, len(jobs))
		for k, i := range line[:min(len(line), len(devices))] {
			places[i].Devices = []string{devices[k].Name}
		}
		return places
	}
}

// firstCome lets a job run to its end. For jobs of one device there is nothing to backfill: it is
// first-come-first-served with backfilling.
func firstCome(a, b *Job) int {
	if a.Running != b.Running {
		return first(a.Running)
	}
	return cmp.Compare(a.Number, b.Number)
}

// shortest is the shortest remaining time first.
func shortest(a, b *Job) int {
	return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Number, b.Number))
}

func cpus(n int) (devices []Device) {
	for i := range n {
		devices = append(devices, Device{Name: "cpu:" + string(rune('0'+i)), Kind: "cpu"})
	}
	return devices
}

// lognormal draws jobs of one device. Their lengths are lognormal with sigma 2 and a median of a
// minute, and predictions are off by up to the factor wrong, either way.
func lognormal(n int, load float64, servers int, wrong float64, seed uint64) (arrivals []arrival) {
	random := rand.New(rand.NewPCG(seed, 1))
	errors := rand.New(rand.NewPCG(seed, 2))
	mean := float64(time.Minute) * math.Exp(2)
	at := 0.0
	for i := range n {
		at += random.ExpFloat64() * mean / (float64(servers) * load)
		length := time.Duration(float64(time.Minute)*math.Exp(2*random.NormFloat64())) + 1
		said := time.Duration(float64(length) * math.Pow(wrong, 2*errors.Float64()-1))
		arrivals = append(arrivals, arrival{time.Duration(at),
			Job{Number: i + 1, Length: said, Left: said, Needs: []Need{{"cpu", 1}}}, length})
	}
	return arrivals
}

// TestTurnaround compares the mean time from submission to end with that of first-come-first-served and
// of the shortest remaining time first, which knows the exact lengths. The median of several
// seeds counts, as one job of a heavy tail can decide a mean.
func TestTurnaround(t *testing.T) {
	seeds := 7
	if testing.Short() {
		seeds = 1
	}
	for _, load := range []float64{0.7, 0.95, 1.2} {
		var fcfs, srpt, wrong []float64
		for seed := range uint64(seeds) {
			exact := lognormal(10_000, load, 4, 1, seed)
			ours := run(exact, cpus(4), Arrange).mean()
			fcfs = append(fcfs, ours/run(exact, cpus(4), byOrder(firstCome)).mean())
			srpt = append(srpt, ours/run(exact, cpus(4), byOrder(shortest)).mean())
			wrong = append(wrong, run(lognormal(10_000, load, 4, 2, seed), cpus(4), Arrange).mean()/ours)
		}
		t.Logf("load %.2f: %.3f of FCFS, %.3f of SRPT; lengths off by up to 2 cost %.3f", load, median(fcfs), median(srpt), median(wrong))
		if load == 0.95 && median(fcfs) > 0.5 || median(srpt) > 1.15 || median(wrong) > 1.15 {
			t.Errorf("load %.2f: %v of FCFS, %v of SRPT, %v with wrong lengths", load, fcfs, srpt, wrong)
		}
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// TestEqualLengths: jobs of one length run one after the other, on any number of devices, however many more come
// than the devices can do, and whether or not all are overdue in the end.
func TestEqualLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, length := rapid.IntRange(1, 8).Draw(t, "devices"), time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "length"))
		load := rapid.Float64Range(0.1, 8).Draw(t, "load")
		arrivals := lognormal(rapid.IntRange(2, 300).Draw(t, "jobs"), load, n, 1, rapid.Uint64().Draw(t, "seed"))
		for i := range arrivals {
			a := &arrivals[i]
			a.at = time.Duration(a.at.Seconds() / time.Minute.Seconds() / math.Exp(2) * float64(length))
			a.true, a.job.Length, a.job.Left = length, length, length
		}
		if o := run(arrivals, cpus(n), Arrange); o.suspended > 0 {
			t.Fatalf("%d of %d jobs of one length were suspended", o.suspended, len(arrivals))
		}
	})
}

// TestManyDevicesAreNotKeptWaiting: a job that needs two devices gets them, although
// single ones never stop coming and there are more of these than the devices can do.
func TestManyDevicesAreNotKeptWaiting(t *testing.T) {
	arrivals := lognormal(3_000, 1.3, 2, 1, 5)
	pair := Job{Number: len(arrivals) + 1, Length: time.Minute, Left: time.Minute, Needs: []Need{{"cpu", 2}}}
	at := arrivals[300].at
	arrivals = slices.Insert(arrivals, 300, arrival{at, pair, time.Minute})
	o := run(arrivals, cpus(2), Arrange)
	longest := slices.MaxFunc(arrivals[:600], func(a, b arrival) int { return cmp.Compare(a.true, b.true) }).true
	if o.turnaround[300] > Patience*time.Minute+2*longest {
		t.Errorf("the job for two devices took %v; the longest single one takes %v", o.turnaround[300], longest)
	}
}
