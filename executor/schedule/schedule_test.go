package schedule

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSpec describes one of the named schedules: its stages on a worker each, on
// neighbouring ones, in rounds, or anywhere.
func drawSpec(t *rapid.T) Spec {
	o := Spec{
		Name: rapid.SampledFrom(Names()).Draw(t, "name"), Stages: rapid.IntRange(1, 7).Draw(t, "stages"),
		Microbatches: rapid.IntRange(1, 12).Draw(t, "microbatches"), Replicas: rapid.IntRange(1, 3).Draw(t, "replicas"),
	}
	if rapid.Bool().Draw(t, "shared by speed") {
		for range o.Replicas {
			o.Shares = append(o.Shares, rapid.IntRange(1, 12).Draw(t, "share"))
		}
	}
	workers, of := rapid.IntRange(1, o.Stages).Draw(t, "workers"), rapid.SampledFrom([]string{"", "neighbours", "rounds", "any"}).Draw(t, "of")
	apart := rapid.Bool().Draw(t, "replicas apart")
	for i := range o.Stages * o.Replicas {
		w, s := 0, i%o.Stages
		switch of {
		case "":
			return o
		case "neighbours":
			w = s * workers / o.Stages
		case "rounds":
			w = s % workers
		case "any":
			w = rapid.IntRange(0, workers-1).Draw(t, "worker")
		}
		if apart {
			w += i / o.Stages * workers
		}
		o.Workers = append(o.Workers, w)
	}
	return o
}

// draw makes one of the named schedules, sometimes with the sums of a tree, with
// microbatches left out or with fewer workers.
func draw(t *rapid.T) Schedule {
	s, err := New(drawSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 1:
		s = s.Without(rapid.IntRange(1, s.Microbatches).Draw(t, "without"))
	case 2:
		s = s.On(rapid.IntRange(1, len(s.Rows)).Draw(t, "on"))
	case 3:
		s = withSums(s)
	}
	return s
}

// withSums puts each reduction into the row where its result lives, before the
// updates.
func withSums(s Schedule) Schedule {
	if !s.Has(Backward) {
		return s
	}
	s.Rows = slices.Clone(s.Rows)
	owner := map[int]int{}
	for _, row := range s.Rows {
		for _, a := range row {
			if a.Kind == Forward {
				owner[a.Microbatch] = a.Replica
			}
		}
	}
	var add func(stage, lo, hi int)
	add = func(stage, lo, hi int) {
		if hi-lo < 2 {
			return
		}
		m := Split(lo, hi)
		add(stage, lo, m)
		add(stage, m, hi)
		a := Action{stage, Reduce, m, owner[lo]}
		w := s.Worker(stage, a.Replica)
		i := slices.IndexFunc(s.Rows[w], func(a Action) bool { return a.Kind == Update })
		s.Rows[w] = slices.Insert(slices.Clone(s.Rows[w]), i, a)
	}
	for stage := range s.Stages {
		add(stage, 0, s.Microbatches)
	}
	return s
}

// checkOrder checks Order against the rules, stated here once more.
func checkOrder(t *rapid.T, s Schedule) {
	at := map[Action]int{}
	for i, a := range s.Order() {
		if _, dup := at[a]; dup {
			t.Fatalf("%v is submitted twice", a)
		}
		at[a] = i
	}
	want := 0
	for _, row := range s.Rows {
		want += len(row)
		for i := 1; i < len(row); i++ {
			if row[i].Kind != Update && row[i-1].Kind != Update && at[row[i]] < at[row[i-1]] {
				t.Fatalf("%v comes before %v, unlike in its row", row[i], row[i-1])
			}
		}
	}
	if len(at) != want {
		t.Fatalf("%d actions of %d", len(at), want)
	}
	for a := range at {
		for _, b := range follows(s, a) {
			if ib, ok := at[b]; ok && at[a] > ib {
				t.Fatalf("%v comes after %v", a, b)
			}
		}
	}
}

// follows lists the actions that must come after a, if the schedule has them.
func follows(s Schedule, a Action) []Action {
	var after []Action
	switch a.Kind {
	case Forward:
		after = append(after, Action{a.Stage + 1, Forward, a.Microbatch, a.Replica}, Action{a.Stage, Backward, a.Microbatch, a.Replica})
	case Backward:
		after = append(after, Action{a.Stage - 1, Backward, a.Microbatch, a.Replica}, Action{a.Stage, Weights, a.Microbatch, a.Replica})
	case Update:
		return nil
	}
	if a.Kind != Forward { // every sum that the microbatch is in
		for m := 1; m < s.Microbatches; m++ {
			lo, hi := SumOf(m, s.Microbatches)
			if a.Microbatch < lo || a.Microbatch >= hi || a.Kind == Reduce && (a.Microbatch == m || !inside(a.Microbatch, lo, hi, s.Microbatches)) {
				continue
			}
			for r := range s.Replicas {
				after = append(after, Action{a.Stage, Reduce, m, r})
			}
		}
	}
	for u := range s.Stages {
		for r := range s.Replicas {
			after = append(after, Action{Stage: u, Kind: Update, Replica: r})
		}
	}
	return after
}

// inside reports whether the sum that is split at m is a part of that from lo to hi-1.
func inside(m, lo, hi, microbatches int) bool {
	from, to := SumOf(m, microbatches)
	return lo <= from && to <= hi
}

func TestActionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Action{
			Stage: rapid.IntRange(0, 1<<40).Draw(t, "stage"), Kind: Kind(rapid.SampledFrom([]byte(kindLetters)).Draw(t, "kind")),
			Replica: rapid.IntRange(0, 3).Draw(t, "replica"),
		}
		if a.Kind != Update {
			a.Microbatch = rapid.IntRange(0, 1<<40).Draw(t, "microbatch")
		}
		if got, err := ParseAction(a.String()); err != nil || got != a {
			t.Fatalf("%v is read as %v, %v", a, got, err)
		}
	})
}

func TestParseActionErrors(t *testing.T) {
	for _, text := range []string{"", "F", "1X2", "1F", "F1", "-1F0", "01F0", "1F-2", "1F+2", "1U0", "1F2F3", "99999999999999999999F0", "1F0@", "1F0@0", "1F0@01", "@1", "1@1F0"} {
		if a, err := ParseAction(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q is read as %v, %v", text, a, err)
		}
	}
}

// A step without the last microbatches is valid, and each worker keeps its order.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if s.Has(Reduce) {
			return // its sums are those of the whole step
		}
		n := rapid.IntRange(1, s.Microbatches).Draw(t, "microbatches")
		less := s.Without(n)
		if err := less.Validate(); err != nil || less.Microbatches != n {
			t.Fatal(less.Microbatches, err)
		}
		for w, row := range s.Rows {
			i := 0
			for _, a := range row {
				if a.Microbatch < n {
					if less.Rows[w][i] != a {
						t.Fatalf("%v of\n%v", less, s)
					}
					i++
				}
			}
		}
	})
}

// On fewer workers, a schedule is valid and simulates without overlap on a worker.
func TestOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		on := s.On(rapid.IntRange(1, len(s.Rows)).Draw(t, "on"))
		if err := on.Validate(); err != nil {
			t.Fatal(err)
		}
		end := make([]float64, len(on.Rows))
		for _, sp := range on.Simulate(on.Typical()).Spans {
			if sp.Start < end[sp.Worker] {
				t.Fatalf("%v begins before the worker is free", sp)
			}
			end[sp.Worker] = sp.End
		}
	})
	s, _ := New(Spec{Name: "gpipe", Stages: 4, Microbatches: 1})
	if got := fmt.Sprint(s.On(2).Workers); got != "[0 0 1 1]" {
		t.Error(got)
	}
}

func TestSums(t *testing.T) {
	for n := 2; n <= 40; n++ {
		seen := map[[2]int]bool{}
		for m := 1; m < n; m++ {
			lo, hi := SumOf(m, n)
			if Split(lo, hi) != m || seen[[2]int{lo, hi}] {
				t.Errorf("%d of %d splits %d to %d", m, n, lo, hi)
			}
			seen[[2]int{lo, hi}] = true
		}
		if !seen[[2]int{0, n}] {
			t.Errorf("nothing splits all %d", n)
		}
	}
}
