package schedule

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// draw makes one of the named schedules.
func draw(t *rapid.T) Schedule {
	name := rapid.SampledFrom(Names()).Draw(t, "name")
	s, err := New(name, rapid.IntRange(1, 7).Draw(t, "stages"), rapid.IntRange(1, 12).Draw(t, "microbatches"))
	if err != nil {
		t.Fatal(err)
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
	for _, row := range s.PerStage {
		want += len(row)
		for i := 1; i < len(row); i++ {
			if row[i].Kind != Update && at[row[i]] < at[row[i-1]] {
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
		after = append(after, Action{a.Stage + 1, Forward, a.Microbatch}, Action{a.Stage, Backward, a.Microbatch})
	case Backward:
		after = append(after, Action{a.Stage - 1, Backward, a.Microbatch})
	case Update:
		return nil
	}
	for u := range s.Stages {
		after = append(after, Action{Stage: u, Kind: Update})
	}
	return after
}

func TestActionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Action{Stage: rapid.IntRange(0, 1<<40).Draw(t, "stage"), Kind: rapid.SampledFrom([]Kind{Forward, Backward, Update}).Draw(t, "kind")}
		if a.Kind != Update {
			a.Microbatch = rapid.IntRange(0, 1<<40).Draw(t, "microbatch")
		}
		if got, err := ParseAction(a.String()); err != nil || got != a {
			t.Fatalf("%v is read as %v, %v", a, got, err)
		}
	})
}

func TestParseActionErrors(t *testing.T) {
	for _, text := range []string{"", "F", "1X2", "1F", "F1", "-1F0", "01F0", "1F-2", "1F+2", "1U0", "1F2F3", "99999999999999999999F0"} {
		if a, err := ParseAction(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q is read as %v, %v", text, a, err)
		}
	}
}
