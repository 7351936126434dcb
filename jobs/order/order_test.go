package order

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn is a line as it can be after earlier decisions: a running job has devices that are there
// and that no other one has.
func drawn(t *rapid.T) (jobs []Job, devices []Device) {
	free := map[string][]string{}
	for i := range rapid.IntRange(0, 6).Draw(t, "devices") {
		d := Device{Name: "d" + strconv.Itoa(i), Kind: rapid.SampledFrom([]string{"cpu", "gpu"}).Draw(t, "kind")}
		devices = append(devices, d)
		free[d.Kind] = append(free[d.Kind], d.Name)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
		length := time.Duration(rapid.IntRange(0, 40).Draw(t, "length"))
		j := Job{
			Number:   i + 1,
			Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
			Length:   length,
			Left:     time.Duration(rapid.IntRange(0, int(length)).Draw(t, "left")),
			Age:      time.Duration(rapid.IntRange(0, 1000).Draw(t, "age")),
		}
		for _, kind := range []string{"cpu", "gpu"} {
			if n := rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(t, kind); n > 0 {
				j.Needs = append(j.Needs, Need{kind, n})
			}
		}
		if j.Needs == nil {
			j.Needs = []Need{{"cpu", 1}}
		}
		j.start(free, rapid.Bool().Draw(t, "running"))
		if j.Running && overdue(&j) && rapid.Bool().Draw(t, "safe") {
			j.Safe = ratio(&j)
		}
		jobs = append(jobs, j)
	}
	return jobs, devices
}

// start lets the job run if there are the devices for it.
func (j *Job) start(free map[string][]string, want bool) {
	if !want || slices.ContainsFunc(j.Needs, func(n Need) bool { return len(free[n.Kind]) < n.Count }) {
		return
	}
	j.Running = true
	for _, n := range j.Needs {
		j.On = append(j.On, free[n.Kind][:n.Count]...)
		free[n.Kind] = free[n.Kind][n.Count:]
	}
}

// TestArrange checks what holds for every decision.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, devices := drawn(t)
		places := Arrange(jobs, devices)
		kind, owner := map[string]string{}, map[string]int{}
		for _, d := range devices {
			kind[d.Name] = d.Kind
		}
		for i, p := range places {
			if p.Devices == nil {
				continue
			}
			var want, got []string
			for _, n := range jobs[i].Needs {
				want = append(want, slices.Repeat([]string{n.Kind}, n.Count)...)
			}
			for _, d := range p.Devices {
				got = append(got, kind[d])
				if other := owner[d]; other != 0 {
					t.Fatalf("%s has jobs %d and %d", d, other, jobs[i].Number)
				}
				owner[d] = jobs[i].Number
			}
			if !slices.Equal(got, want) {
				t.Fatalf("job %d needs %v and got %v", jobs[i].Number, want, p.Devices)
			}
			if jobs[i].Running && !slices.Equal(p.Devices, jobs[i].On) {
				t.Fatalf("job %d was moved from %v to %v", jobs[i].Number, jobs[i].On, p.Devices)
			}
		}
		checkWaiting(t, jobs, devices, places)
		checkShuffled(t, jobs, devices, places)
	})
}

// checkWaiting: no job waits for devices that nobody has, none for one behind it, and a
// safe one does not wait at all.
func checkWaiting(t *rapid.T, jobs []Job, devices []Device, places []Place) {
	free, total := map[string]int{}, map[string]int{}
	for _, d := range devices {
		free[d.Kind]++
		total[d.Kind]++
	}
	number := map[int]*Job{}
	for i, p := range places {
		number[jobs[i].Number] = &jobs[i]
		if p.Devices != nil {
			for _, n := range jobs[i].Needs {
				free[n.Kind] -= n.Count
			}
		}
	}
	for i, p := range places {
		j := &jobs[i]
		if p.Devices != nil {
			continue
		}
		if safe(j) {
			t.Fatalf("safe job %d was displaced", j.Number)
		}
		fits, can := true, true
		for _, n := range j.Needs {
			fits = fits && free[n.Kind] >= n.Count
			can = can && total[n.Kind] >= n.Count
		}
		if fits {
			t.Fatalf("job %d waits beside free devices", j.Number)
		}
		if can == (p.Behind == nil) || can == (p.Lacks.Count > 0) {
			t.Fatalf("job %d waits, and why is %+v", j.Number, p)
		}
		for _, n := range p.Behind {
			if Compare(number[n], j) > 0 {
				t.Fatalf("job %d waits for %d, which is behind it", j.Number, n)
			}
		}
	}
}

func checkShuffled(t *rapid.T, jobs []Job, devices []Device, places []Place) {
	perm := rapid.Permutation(jobs).Draw(t, "other order")
	again := Arrange(perm, devices)
	for i, j := range perm {
		k := slices.IndexFunc(jobs, func(o Job) bool { return o.Number == j.Number })
		if !reflect.DeepEqual(again[i], places[k]) {
			t.Fatalf("job %d gets %+v, and in another order of the jobs %+v", j.Number, places[k], again[i])
		}
	}
}

// TestSettled: a decision that was carried out, and asked for again in the same instant, is not
// changed.
func TestSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, devices := drawn(t)
		for i, p := range Arrange(jobs, devices) {
			jobs[i].Running, jobs[i].Safe = p.Devices != nil, p.Safe
			if p.Devices != nil {
				jobs[i].On = p.Devices
			}
		}
		for i, p := range Arrange(jobs, devices) {
			if jobs[i].Running != (p.Devices != nil) {
				t.Fatalf("job %d: runs %v, and then %v", jobs[i].Number, jobs[i].Running, p.Devices)
			}
		}
	})
}

func job(number int, left time.Duration, change ...func(*Job)) Job {
	j := Job{Number: number, Length: left, Left: left, Needs: []Need{{"cpu", 1}}}
	for _, c := range change {
		c(&j)
	}
	return j
}

func runs(j *Job)   { j.Running, j.On = true, []string{"cpu:0"} }
func urgent(j *Job) { j.Priority = 1 }
func pair(j *Job)   { j.Needs = []Need{{"cpu", 2}} }
func old(times int) func(*Job) {
	return func(j *Job) { j.Age = time.Duration(times) * j.Length }
}
func kept(j *Job) { j.Safe = ratio(j) }

// TestLine has a case for each rule: who gets the only device.
func TestLine(t *testing.T) {
	cases := []struct {
		name string
		jobs []Job
		want int
	}{
		{"the least time left", []Job{job(1, 9), job(2, 5)}, 2},
		{"the lower number of equal ones", []Job{job(2, 5), job(1, 5)}, 1},
		{"a running job counts half", []Job{job(1, 9, runs), job(2, 5)}, 1},
		{"and no less than half", []Job{job(1, 11, runs), job(2, 5)}, 2},
		{"priority before time", []Job{job(1, 5, runs), job(2, 900, urgent)}, 2},
		{"20 times its length is not too long", []Job{job(1, 9, old(20)), job(2, 5)}, 2},
		{"21 times is, whatever the priority", []Job{job(1, 9, old(21)), job(2, 5, urgent)}, 1},
		{"the largest ratio", []Job{job(1, 9, old(21)), job(2, 90, old(22))}, 2},
		{"but not before one that has begun so", []Job{job(1, 9, old(21), runs, kept), job(2, 5, old(900))}, 1},
		{"an old job that began young has no such right", []Job{job(1, 9, old(21), runs), job(2, 5, old(900))}, 2},
	}
	for _, c := range cases {
		for i, p := range Arrange(c.jobs, cpus(1)) {
			if got := p.Devices != nil; got != (c.jobs[i].Number == c.want) {
				t.Errorf("%s: job %d gets %v", c.name, c.jobs[i].Number, p.Devices)
			}
		}
	}
}

// TestWhyNot: what a job that waits is told.
func TestWhyNot(t *testing.T) {
	jobs := []Job{job(6, 4), job(8, 5, pair), job(9, 30, pair), job(10, 7, func(j *Job) { j.Needs[0].Count = 4 })}
	places := Arrange(jobs, cpus(3))
	want := []Place{
		{Devices: []string{"cpu:0"}},
		{Devices: []string{"cpu:1", "cpu:2"}},
		{Behind: []int{6, 8}},
		{Lacks: Need{"cpu", 4}},
	}
	if !reflect.DeepEqual(places, want) {
		t.Errorf("got  %+v\nwant %+v", places, want)
	}
}

// TestForecast: without other jobs, what was foretold is what the simulation of the same
// decisions gives, whatever host memory there is.
func TestForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs, devices := drawn(t)
		host := int64(rapid.IntRange(0, 12).Draw(t, "host memory"))
		common := map[string]int64{"a": int64(rapid.IntRange(0, 3).Draw(t, "a")), "b": int64(rapid.IntRange(0, 3).Draw(t, "b"))}
		var arrivals []arrival
		for _, j := range jobs {
			j.Running, j.On, j.Safe, j.Left = false, nil, 0, max(j.Left, 1)
			j.Host, j.Data = int64(rapid.IntRange(0, 5).Draw(t, "host")), int64(rapid.IntRange(0, 3).Draw(t, "data"))
			j.DataID = rapid.SampledFrom([]string{"a", "b", strconv.Itoa(j.Number)}).Draw(t, "of")
			if bytes, ok := common[j.DataID]; ok {
				j.Data = bytes // the same data have one size
			}
			fits := Arrange([]Job{j}, devices)[0].Devices != nil
			if fits {
				arrivals = append(arrivals, arrival{0, j, j.Left})
			}
		}
		jobs = jobs[:0]
		for _, a := range arrivals {
			jobs = append(jobs, a.job)
		}
		real := run(arrivals, devices, within(host))
		for i, s := range Forecast(jobs, devices, host, len(jobs)) {
			if s.Ends != real.turnaround[i] || s.Begins < 0 || s.Begins >= s.Ends {
				t.Fatalf("job %d was to run from %v to %v, and ended at %v", jobs[i].Number, s.Begins, s.Ends, real.turnaround[i])
			}
		}
	})
}

// within is Arrange for jobs that keep host memory until others are to have it. It opens and closes them.
func within(host int64) policy {
	return func(jobs []Job, devices []Device) []Place {
		places := Arrange(jobs, devices)
		var line, front []*Job
		for i := range jobs {
			line = append(line, &jobs[i])
		}
		place := func(j *Job) *Place { return &places[slices.Index(line, j)] }
		front = slices.DeleteFunc(slices.Clone(line), func(j *Job) bool { return place(j).Devices == nil })
		slices.SortFunc(front, Compare)
		values := func(list []*Job) (values []Job) {
			for _, j := range list {
				values = append(values, *j)
			}
			return values
		}
		g := Grant(host, values(front))
		for _, j := range front {
			if j.Open {
				continue
			}
			if !g.To(j.Number) {
				*place(j) = Place{}
				continue
			}
			open := slices.DeleteFunc(slices.Clone(line), func(j *Job) bool { return !j.Open })
			if !Together(host, append(values(open), *j)...) {
				others := slices.DeleteFunc(open, func(j *Job) bool { return g.To(j.Number) })
				slices.SortFunc(others, func(a, b *Job) int {
					if x, y := place(a).Devices != nil, place(b).Devices != nil; x != y {
						return first(x)
					}
					return Compare(a, b)
				})
				for _, k := range Close(host, g.Has, values(others)) {
					others[k].Open = false
				}
			}
			j.Open = true
		}
		return places
	}
}

// BenchmarkArrange is a decision over a long line.
func BenchmarkArrange(b *testing.B) {
	jobs := many(10_000)
	for b.Loop() {
		Arrange(jobs, cpus(4))
	}
}

// BenchmarkForecast foretells the ends of the first thousand jobs in a long line.
func BenchmarkForecast(b *testing.B) {
	jobs := many(10_000)
	for b.Loop() {
		Forecast(jobs, cpus(4), math.MaxInt64, 1000)
	}
}

func many(n int) (jobs []Job) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		length := time.Duration(random.ExpFloat64() * float64(time.Minute))
		jobs = append(jobs, job(i+1, length, func(j *Job) { j.Age = time.Duration(random.ExpFloat64() * float64(10*time.Minute)) }))
	}
	return jobs
}
