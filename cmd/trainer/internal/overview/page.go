package overview

import "github.com/berth-ml/berth/checkpoint/rundir"

// RecordOf is a run as trainer runs ls --json prints it.
func RecordOf(dir string, s *rundir.Summary) Record { return summarized{dir, s}.record() }

// Next is the command that most want next for a run; "" for none.
func Next(dir string, s *rundir.Summary) string { return summarized{dir, s}.next() }

// Differences are the keys of the runs' configs that differ, in the order of the configs. A run whose config cannot be
// read has none of them.
func Differences(list []*rundir.Summary) ([]Difference, error) {
	runs := make([]summarized, len(list))
	for i, s := range list {
		runs[i] = summarized{"", s}
	}
	return differences(runs)
}
