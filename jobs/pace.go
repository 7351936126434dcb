package jobs

import "time"

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

// length is the time that the whole run takes alone; said is what was known before.
func (p *pace) length(said time.Duration) time.Duration {
	if each := p.each(); each > 0 {
		return each * time.Duration(p.total)
	}
	return said
}

// left is the time for the steps that are left.
func (p *pace) left(said time.Duration) time.Duration {
	if each := p.each(); each > 0 {
		return each * time.Duration(max(p.total-p.at, 0))
	}
	return said
}
