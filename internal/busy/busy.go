// Package busy tells whether other processes took the cores from this one for a while.
package busy

import "time"

// mostWaited is the share of its work's time for which a process waits for cores on a machine that does little else.
const mostWaited = 0.25

// Assume says in tests, which run on machines that do much else, what Busy answers; nil elsewhere.
var Assume func() bool

// Period is a period of work, until now.
type Period struct{ ran, waited time.Duration }

// Begin begins a period.
func Begin() Period {
	ran, waited := threads()
	return Period{ran, waited}
}

// Busy reports whether this process has waited for cores for much of the period. Systems other than Linux do not say.
func (p Period) Busy() bool {
	if Assume != nil {
		return Assume()
	}
	return p.share() > mostWaited
}

// share is the share of the period's work for which threads waited for a core.
func (p Period) share() float64 {
	ran, waited := threads()
	ran, waited = max(0, ran-p.ran), max(0, waited-p.waited) // a thread may have ended
	return waited.Seconds() / max(1e-9, (ran+waited).Seconds())
}
