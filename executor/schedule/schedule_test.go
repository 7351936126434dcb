package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/golden"
)

func TestGolden(t *testing.T) {
	for _, name := range Names() {
		var b strings.Builder
		for _, c := range [][2]int{{1, 1}, {1, 3}, {2, 1}, {2, 4}, {3, 2}, {3, 4}, {4, 8}} {
			s, err := New(name, c[0], c[1])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%v%v\n", s, s.Simulate(TypicalCost))
		}
		golden.Check(t, "testdata/"+name+".txt", b.String())
	}
}

// The unit of a makespan is the unit of its costs.
func TestMakespanHasAUnit(t *testing.T) {
	line := OneFOneB(2, 3).Simulate(TypicalCost)
	for unit, want := range map[string]string{
		"":      "makespan 12.5 (relative cost), bubble 25.0%",
		"flops": "makespan 12.5 flops, bubble 25.0%",
	} {
		line.Unit = unit
		if !strings.Contains(line.String(), want+"\n") || !strings.Contains(line.SVG(), ">"+want+"<") {
			t.Errorf("unit %q: want %q in\n%s%s", unit, want, line, line.SVG())
		}
	}
}

func TestSVG(t *testing.T) {
	golden.Check(t, "testdata/1f1b.svg", OneFOneB(2, 3).Simulate(TypicalCost).SVG())
}

// draw makes one of the named schedules.
func draw(t *rapid.T) Schedule {
	name := rapid.SampledFrom(Names()).Draw(t, "name")
	s, err := New(name, rapid.IntRange(1, 7).Draw(t, "stages"), rapid.IntRange(1, 12).Draw(t, "microbatches"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEverySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		checkOrder(t, s)
		back, err := Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(back) != fmt.Sprint(s) || !slices.EqualFunc(back.PerStage, s.PerStage, slices.Equal) {
			t.Fatalf("parsed back as\n%v", back)
		}
	})
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

// follows lists what must come after a, if it is in the schedule.
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

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "first line"},
		{"schedule x stages two microbatches 1\n", "stages"},
		{"schedule x stages 1 microbatches -1\n", "microbatches"},
		{"schedule x stages 2 microbatches 1\n0: 0F0", "1 rows for 2 stages"},
		{"schedule x stages 1 microbatches 1\n1: 0F0", "begin it with"},
		{"schedule x stages 1 microbatches 1\n0: 0F0 0Z0", "line 2"},
	} {
		if _, err := Parse(c.text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

func TestNewErrors(t *testing.T) {
	if _, err := New("zb1p", 1, 1); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "1f1b, forward, gpipe") {
		t.Error(err)
	}
	if _, err := New("gpipe", 0, 1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestValidate breaks schedules in one place and wants that place named.
func TestValidate(t *testing.T) {
	head2 := "schedule x stages 2 microbatches 2\n"
	good1 := "1: 1F0 1F1 1B0 1B1 1U\n"
	for name, c := range map[string]struct{ text, want string }{
		"missing forward":  {head2 + "0: 0F0 0B0 0U\n" + good1, "0F1 is missing"},
		"missing backward": {head2 + "0: 0F0 0F1 0B0 0U\n" + good1, "0B1 is missing"},
		"missing update":   {head2 + "0: 0F0 0F1 0B0 0B1\n" + good1, "0U is missing"},
		"duplicate":        {head2 + "0: 0F0 0F0 0F1 0B0 0B1 0U\n" + good1, "0F0 is a duplicate"},
		"backward order":   {head2 + "0: 0F0 0F1 0B1 0B0 0U\n" + good1, "0B1 is out of order: 0B0 must come first"},
		"forward order":    {head2 + "0: 0F1 0F0 0B0 0B1 0U\n" + good1, "0F1 is out of order"},
		"own forward":      {head2 + "0: 0F0 0B0 0B1 0F1 0U\n" + good1, "0B1 comes before 0F1"},
		"update early":     {head2 + "0: 0F0 0F1 0B0 0U 0B1\n" + good1, "0B1 comes after the stage's update"},
		"wrong row":        {head2 + "0: 1F0 0F1 0B0 0B1 0U\n" + good1, "1F0 stands in the row of stage 0"},
		"no such mb":       {head2 + "0: 0F0 0F1 0F2 0B0 0B1 0U\n" + good1, "0F2 is outside"},
		"deadlock":         {head2 + "0: 0F0 0B0 0F1 0B1 0U\n" + good1, "0B0 is in a deadlock: it waits for 1B0"},
		"no microbatches":  {"schedule x stages 1 microbatches 0\n0: 0U\n", "give at least 1"},
	} {
		s, err := Parse(c.text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = s.Validate()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

func TestValidateMarksTheCell(t *testing.T) {
	s := GPipe(2, 1)
	s.PerStage[0] = []Action{{0, Forward, 0}, {0, Update, 0}, {0, Backward, 0}}
	err := s.Validate()
	if err == nil || !strings.Contains(err.Error(), "[0B0]") {
		t.Error(err)
	}
}

// TestMutated removes, repeats or swaps actions at random: Validate must
// accept exactly what still runs and keeps the order.
func TestMutated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		row := rapid.IntRange(0, s.Stages-1).Draw(t, "row")
		acts := s.PerStage[row]
		i := rapid.IntRange(0, len(acts)-1).Draw(t, "i")
		if rapid.Bool().Draw(t, "drop") {
			s.PerStage[row] = slices.Delete(slices.Clone(acts), i, i+1)
		} else {
			s.PerStage[row] = slices.Insert(slices.Clone(acts), i, acts[i])
		}
		err := s.Validate()
		if alone := acts[i].Kind == Backward && !s.backward(); alone {
			if err != nil { // what is left is a forward-only schedule
				t.Fatal(err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Fatalf("accepted without or with twice %v:\n%v", acts[i], s)
		}
		if back, err := Parse(s.String()); err != nil || !slices.EqualFunc(back.PerStage, s.PerStage, slices.Equal) {
			t.Fatalf("prints as\n%v, read as\n%v%v", s, back, err)
		}
	})
}

// TestBubble checks the known share (S-1)/(M+S-1) for equal stages, which is
// the same for both schedules, and what each holds in flight.
func TestBubble(t *testing.T) {
	for stages := 1; stages <= 5; stages++ {
		for m := 1; m <= 10; m++ {
			want := float64(stages-1) / float64(m+stages-1)
			for _, s := range []Schedule{GPipe(stages, m), OneFOneB(stages, m)} {
				if got := s.Simulate(TypicalCost).Bubble; math.Abs(got-want) > 1e-9 {
					t.Errorf("%s %d stages %d microbatches: bubble %g, want %g", s.Name, stages, m, got, want)
				}
			}
			for st := range stages {
				if got := GPipe(stages, m).InFlight(st); got != m {
					t.Errorf("gpipe holds %d of %d", got, m)
				}
				if got, want := OneFOneB(stages, m).InFlight(st), min(m, stages-st); got != want {
					t.Errorf("1f1b with %d stages, %d microbatches: stage %d holds %d, want %d", stages, m, st, got, want)
				}
				if got := ForwardOnly(stages, m).InFlight(st); got != 1 {
					t.Errorf("forward holds %d", got)
				}
			}
		}
	}
}

// TestMeasured checks that a timeline of measured spans needs no origin at 0.
func TestMeasured(t *testing.T) {
	spans := []Span{{Action{1, Backward, 0}, 130, 140}, {Action{0, Forward, 0}, 100, 110}, {Action{1, Forward, 0}, 120, 130}, {Action{0, Backward, 0}, 140, 150}, {Action{0, Update, 0}, 150, 175}}
	tl := NewTimeline(2, spans)
	if tl.Makespan != 75 || tl.Bubble != 0.6 || tl.Spans[0].Start != 100 {
		t.Errorf("makespan %g, bubble %g, first %v", tl.Makespan, tl.Bubble, tl.Spans[0])
	}
	if text := tl.Text(Action{1, Forward, 0}); !strings.Contains(text, "!1F0!") {
		t.Error(text)
	}
	if empty := NewTimeline(1, nil); empty.Bubble != 0 || empty.String() == "" {
		t.Error(empty)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(OneFOneB(3, 4).String())
	f.Add("schedule x stages 1 microbatches 999999999\n0: 5F1 0U 0B0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		_ = s.Validate()
		back, err := Parse(s.String())
		if err != nil || back.String() != s.String() {
			t.Fatalf("%q: %v", s.String(), err)
		}
	})
}
