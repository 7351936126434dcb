package overview

import (
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// RecordOf is a run as trainer runs ls --json prints it. rests is its job, if that rests.
func RecordOf(dir string, s *rundir.Summary, rests *Resting) Record {
	return summarized{dir, s, rests}.record()
}

// Next is the command that most want next for a run; "" for none. rests is its job, if that rests.
func Next(dir string, s *rundir.Summary, rests *Resting) string {
	return summarized{dir, s, rests}.next()
}

// Differences are the keys of the runs' configs that differ, in the order of the configs. A run whose config cannot be
// read has none of them.
func Differences(list []*rundir.Summary) ([]Difference, error) {
	runs := make([]summarized, len(list))
	for i, s := range list {
		runs[i] = summarized{Summary: s}
	}
	return differences(runs)
}

// lastYear is that of JSON's times.
const lastYear = 9999

// Known is a time of a file, or the zero time for one that JSON does not have: a damaged file or disk may tell any.
func Known(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 0 || y > lastYear {
		return time.Time{}
	}
	return t
}
