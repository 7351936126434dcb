package order

import (
	"math"
	"slices"
	"time"
)

// Never is a time of a [Span] that the forecast did not reach.
const Never = time.Duration(-1)

// Span is when a job runs, as time from now on: Begins is when it next has its
// devices, which is 0 if it has them now. Between the two it may be suspended.
type Span struct {
	Begins, Ends time.Duration
}

// Forecast says when jobs begin and end if no other job comes and each takes the
// time that it says. It decides as [Arrange], [Grant] and [Close] do, with so many bytes of host memory for all jobs
// together, whenever a job ends or becomes old enough to go first. It stops after so many ends; the rest is Never, and so is a job
// that lacks devices. Its time is in proportion to the jobs times the ends.
func Forecast(jobs []Job, devices []Device, host int64, ends int) []Span {
	f := forecast{jobs: slices.Clone(jobs), index: make([]int, len(jobs)), spans: make([]Span, len(jobs))}
	for i := range f.spans {
		f.index[i], f.spans[i] = i, Span{Begins: Never, Ends: Never}
	}
	places := make([]Place, len(jobs))
	for ends > 0 && len(f.jobs) > 0 {
		places = places[:len(f.jobs)]
		clear(places)
		chosen, _ := choose(f.jobs, newShares(devices), places)
		if len(chosen) == 0 {
			break
		}
		seat(f.jobs, devices, chosen, places)
		f.open(host, chosen, places)
		f.place(places)
		f.pass(f.next())
		ends -= f.end()
	}
	return f.spans
}

// forecast is a simulated time and the jobs that have not ended by then.
type forecast struct {
	now   time.Duration
	jobs  []Job
	index []int // of each of jobs in spans
	spans []Span

	idle bool // a job has devices that it cannot use yet, since it waits for host memory
}

// open lets those of the chosen jobs keep their places that are open, or have host memory to be.
func (f *forecast) open(host int64, chosen []int, places []Place) {
	seated := make([]Job, len(chosen))
	for k, i := range chosen {
		seated[k] = f.jobs[i]
	}
	g := Grant(host, seated)
	f.idle = false
	for _, i := range chosen {
		j := &f.jobs[i]
		if !j.Open && !g.To(j.Number) {
			places[i], f.idle = Place{}, true
		} else if !j.Open {
			f.makeRoom(host, j, &g, places)
			j.Open = true
		}
	}
}

// makeRoom closes jobs that have the host memory of one that is to begin.
func (f *forecast) makeRoom(host int64, begins *Job, g *Grants, places []Place) {
	all, rest := []Job{*begins}, []Job(nil)
	var at []int
	for i := range f.jobs {
		if f.jobs[i].Open {
			all = append(all, f.jobs[i])
			if !g.To(f.jobs[i].Number) {
				at = append(at, i)
			}
		}
	}
	if Together(host, all...) {
		return
	}
	slices.SortFunc(at, func(i, k int) int {
		if x, y := places[i].Devices != nil, places[k].Devices != nil; x != y {
			return first(x)
		}
		return Compare(&f.jobs[i], &f.jobs[k])
	})
	for _, i := range at {
		rest = append(rest, f.jobs[i])
	}
	for _, k := range Close(host, g.Has, rest) {
		f.jobs[at[k]].Open = false
	}
}

// place lets jobs run as decided.
func (f *forecast) place(places []Place) {
	for i := range places {
		j, p := &f.jobs[i], &places[i]
		j.Running, j.Safe = p.Devices != nil, p.Safe
		if !j.Running {
			continue
		}
		j.On = p.Devices
		if span := &f.spans[f.index[i]]; span.Begins == Never {
			span.Begins = f.now
		}
	}
}

// next is the time until something changes in the line. While all that have devices run and are safe, nobody
// displaces them, however old he becomes.
func (f *forecast) next() time.Duration {
	end, ripe := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	settled := !f.idle
	for i := range f.jobs {
		j := &f.jobs[i]
		if j.Running {
			end = min(end, max(j.Left, 0))
			settled = settled && j.Safe > 0
		} else if !overdue(j) {
			ripe = min(ripe, patience(j)-j.Age+1)
		}
	}
	if settled {
		return end
	}
	return min(end, ripe)
}

func (f *forecast) pass(t time.Duration) {
	f.now += t
	for i := range f.jobs {
		f.jobs[i].Age += t
		if f.jobs[i].Running {
			f.jobs[i].Left -= t
		}
	}
}

// end takes out the jobs with nothing left, and says how many.
func (f *forecast) end() (ended int) {
	kept := 0
	for i, j := range f.jobs {
		if j.Running && j.Left <= 0 {
			f.spans[f.index[i]].Ends = f.now
			ended++
			continue
		}
		f.jobs[kept], f.index[kept] = j, f.index[i]
		kept++
	}
	f.jobs, f.index = f.jobs[:kept], f.index[:kept]
	return ended
}
