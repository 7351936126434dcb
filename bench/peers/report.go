package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// report is the result of a run: all turns, and the machine.
type report struct {
	Machine machine `json:"machine"`
	Threads int     `json:"threads"`
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds"` // of a turn
	Turns   []turn  `json:"turns"`
}

func newReport(t turns) report {
	r := report{Threads: t.threads, Rounds: t.rounds, Seconds: t.seconds, Turns: t.measured}
	for _, m := range t.measured {
		if m.Family == berthName {
			r.Machine = m.Machine
		}
	}
	// The go command does not find the commit in every kind of checkout.
	out, err := exec.Command("git", "-C", t.root, "describe", "--always", "--dirty").Output()
	if err == nil {
		r.Machine.Commit = strings.TrimSpace(string(out))
	}
	return r
}

func readReport(file string) (r report, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	if len(r.Turns) == 0 {
		return r, fmt.Errorf("%s has no results", file)
	}
	return r, nil
}

// entry is the fastest variant of a family on a workload.
type entry struct {
	family, variant  string
	median, min      float64 // ms; the median of the rounds' medians, the least of all
	slower, slowerBy float64 // times as slow as Berth: the median of the rounds' ratios; the ratio of the minima
	resident         int64   // bytes; the median of the rounds' peaks
}

// byRound is one variant's turns on a workload, in order.
func (r report) byRound(workload, family, variant string) []turn {
	var ts []turn
	for _, t := range r.Turns {
		if t.Workload == workload && t.Family == family && t.Variant == variant {
			ts = append(ts, t)
		}
	}
	slices.SortFunc(ts, func(a, b turn) int { return cmp.Compare(a.Round, b.Round) })
	return ts
}

// entries lists the families that were measured on a workload, Berth first.
func (r report) entries(workload string) []entry {
	berth := r.byRound(workload, berthName, "")
	if len(berth) == 0 {
		return nil
	}
	var es []entry
	seen := map[[2]string]bool{}
	for _, t := range r.Turns {
		if t.Workload != workload || seen[[2]string{t.Family, t.Variant}] {
			continue
		}
		seen[[2]string{t.Family, t.Variant}] = true
		e := newEntry(berth, r.byRound(workload, t.Family, t.Variant))
		i := slices.IndexFunc(es, func(x entry) bool { return x.family == e.family })
		switch {
		case i < 0:
			es = append(es, e)
		case e.median < es[i].median:
			es[i] = e
		}
	}
	slices.SortFunc(es, func(a, b entry) int {
		return cmp.Compare(slices.Index(families, a.family), slices.Index(families, b.family))
	})
	return es
}

// newEntry sums up a variant's turns. Berth had a turn in every round.
func newEntry(berth, ts []turn) entry {
	e := entry{family: ts[0].Family, variant: ts[0].Variant}
	var ratios []float64
	for _, t := range ts {
		same := slices.IndexFunc(berth, func(b turn) bool { return b.Round == t.Round })
		ratios = append(ratios, t.StepMS.Median/berth[max(0, same)].StepMS.Median)
	}
	e.slower = median(ratios)
	e.median, e.min = median(collect(ts, medianMS)), slices.Min(collect(ts, minMS))
	e.slowerBy = e.min / slices.Min(collect(berth, minMS))
	e.resident = int64(median(collect(ts, residentBytes)))
	return e
}

func medianMS(t turn) float64      { return t.StepMS.Median }
func minMS(t turn) float64         { return t.StepMS.Min }
func residentBytes(t turn) float64 { return float64(t.PeakResidentBytes) }

func collect(ts []turn, what func(turn) float64) []float64 {
	var xs []float64
	for _, t := range ts {
		xs = append(xs, what(t))
	}
	return xs
}

// median is the middle of at least one number; the larger of two in the middle.
func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// versions names every program once.
func (r report) versions() string {
	var vs []string
	for _, t := range r.Turns {
		if t.Version != "" && !slices.Contains(vs, t.Version) {
			vs = append(vs, t.Version)
		}
	}
	slices.Sort(vs)
	return strings.Join(vs, ", ")
}
