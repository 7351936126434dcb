package jobs

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-ml/berth/jobs/queue"
)

// enough is the steps from which on the measured time of a step counts more than the predicted one.
const enough = 5

// pace measures how long the steps of a task take, without the time in which it was suspended.
type pace struct {
	total int // steps of the whole run; 0: not known yet
	at    int // steps taken
	taken int // of these, by this task
	ran   time.Duration
	since time.Time // since when it runs; zero while it does not
}

func (p *pace) begin(total, at int) { p.total, p.at, p.taken = total, at, 0 }

func (p *pace) start() { p.since = time.Now() }

func (p *pace) stand() {
	if !p.since.IsZero() {
		p.ran += time.Since(p.since)
		p.since = time.Time{}
	}
}

func (p *pace) step(at int) { p.taken, p.at = p.taken+at-p.at, at }

// each is the mean time of a step so far, with all that came between steps; 0: too few were
// measured.
func (p *pace) each() time.Duration {
	if p.taken < enough || p.total == 0 {
		return 0
	}
	ran := p.ran
	if !p.since.IsZero() {
		ran += time.Since(p.since)
	}
	return ran / time.Duration(p.taken)
}

// times are what the whole run takes alone, and what is left of that; 0: too little was measured.
func (p *pace) times() (length, left time.Duration) {
	each := p.each()
	return each * time.Duration(p.total), each * time.Duration(max(p.total-p.at, 0))
}

// errorOf says how far off predictions are, from the jobs of the queue that were measured, also while they run: by the
// newest job of the same name, and else by the median of the newest ones.
type errorOf struct {
	byName map[string]float64
	other  float64
}

// recent is how many jobs the median is of.
const recent = 15

func errorsOf(list []queue.Job, open map[int]*task) errorOf {
	e := errorOf{map[string]float64{}, 1}
	var ratios []float64
	for i := range list {
		j := &list[i]
		length := j.Length
		if t := open[j.ID]; t != nil { // otherwise the next of many equal jobs would seem shorter than those that run
			now, _ := t.pace.times()
			length = cmp.Or(now, length)
		}
		if length > 0 && j.Predicted > 0 {
			ratio := float64(length) / float64(j.Predicted)
			e.byName[j.Name] = ratio
			ratios = append(ratios, ratio)
		}
	}
	if n := len(ratios); n > 0 {
		ratios = ratios[max(0, n-recent):]
		slices.Sort(ratios)
		e.other = ratios[len(ratios)/2]
	}
	return e
}

// times are the best that is known of a job's length, and of what is left of it: of a trial, up to its rung.
func (e errorOf) times(j *queue.Job, t *task) (length, left time.Duration) {
	length, left = e.whole(j, t)
	if j.Trial != nil {
		left = max(0, left-time.Duration((1-j.Trial.Share)*float64(length)))
	}
	return length, left
}

// whole is times for the whole run.
func (e errorOf) whole(j *queue.Job, t *task) (length, left time.Duration) {
	if t != nil {
		if length, left = t.pace.times(); length > 0 {
			return length, left
		}
	}
	if j.Length > 0 {
		return j.Length, j.Left
	}
	factor, known := e.byName[j.Name]
	switch {
	case j.Work != nil: // a plan of a training says nothing of it
		factor = 1
	case !known:
		factor = e.other
	}
	length = time.Duration(float64(j.Predicted) * factor)
	return length, length
}
