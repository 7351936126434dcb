package schedule

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEverySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		checkOrder(t, s)
		back, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(back, s) {
			t.Fatalf("%v is parsed as\n%v%v", s, back, err)
		}
	})
}

func TestNewErrors(t *testing.T) {
	if _, err := New(Spec{Name: "zb1p", Stages: 1, Microbatches: 1}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "1f1b, forward, gpipe, interleaved, zb-h1") {
		t.Error(err)
	}
	if _, err := New(Spec{Name: "gpipe", Stages: 1e6, Microbatches: 1}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1000000 stages are too many: use at most 65536") {
		t.Error(err)
	}
	if _, err := New(Spec{Name: "gpipe", Stages: 32, Microbatches: 4096}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "on 32 stages: use at most 2048") {
		t.Error(err)
	}
	for _, o := range []Spec{
		{Name: "gpipe", Microbatches: 1}, {Name: "gpipe", Stages: 1}, {Name: "gpipe", Stages: 1, Microbatches: 1, Replicas: -1},
		{Name: "gpipe", Stages: 2, Microbatches: 1, Workers: []int{0}}, {Name: "gpipe", Stages: 1, Microbatches: 1, Workers: []int{-1}},
		{Name: "gpipe", Stages: 1, Microbatches: 4, Replicas: 2, Shares: []int{4}}, {Name: "gpipe", Stages: 1, Microbatches: 4, Replicas: 2, Shares: []int{4, 0}},
	} {
		if _, err := New(o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The formula counts what the schedule's own actions show: exactly so where the
// stages of each worker are neighbours, or where they are dealt in rounds and no
// turn is short.
func TestInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawSpec(t)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		lanes, workers := o.complete().lanes(), map[int]bool{}
		for _, l := range lanes {
			workers[l.worker] = true
		}
		exact := len(lanes) == len(workers)
		for _, last := range []Kind{Backward, Weights} {
			for stage, got := range o.InFlight(last) {
				want := s.InFlight(stage, last)
				if got < want || exact && last == Backward && got != want {
					t.Fatalf("stage %d until %c: %d, but its actions have %d in flight\n%v", stage, last, got, want, s)
				}
			}
		}
	})
}

func TestInFlightInRounds(t *testing.T) {
	for workers := 1; workers <= 5; workers++ {
		for rounds := 2; rounds <= 4; rounds++ {
			o := dealt("interleaved", workers, rounds, 4*workers)
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			for stage, got := range o.InFlight(Backward) {
				if want := s.InFlight(stage, Backward); got != want && workers > 1 {
					t.Errorf("%d workers, %d rounds: stage %d has %d in flight, its actions %d", workers, rounds, stage, got, want)
				}
			}
		}
	}
}

// Replicas that share workers take no rounds, and have more in flight than rounds do.
func TestInFlightWhereReplicasShareWorkers(t *testing.T) {
	o := Spec{Name: "interleaved", Stages: 6, Microbatches: 5, Replicas: 2, Workers: []int{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for stage, got := range o.InFlight(Backward) {
		if want := s.InFlight(stage, Backward); got < want {
			t.Errorf("stage %d: %d, but its actions have %d in flight", stage, got, want)
		}
	}
}

// dealt describes a schedule of stages that are dealt to workers in rounds.
func dealt(name string, workers, rounds, microbatches int) Spec {
	o := Spec{Name: name, Stages: workers * rounds, Microbatches: microbatches}
	for s := range o.Stages {
		o.Workers = append(o.Workers, s%workers)
	}
	return o
}

// A step of a billion microbatches is refused before anything is made, and their
// number in flight needs no schedule.
func TestBillionMicrobatches(t *testing.T) {
	for _, name := range Names() {
		if _, err := New(Spec{Name: name, Stages: 1, Microbatches: 1e9}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1,000,000,000 microbatches are too many for a step on 1 stage: use at most 4096") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]int{"gpipe": 1e9, "1f1b": 4, "zb-h1": 4, "interleaved": 4} {
		if got := (Spec{Name: name, Stages: 4, Microbatches: 1e9}).InFlight(Backward)[0]; got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// Neighbouring stages on one worker run as one: 1f1b needs the activations of one
// microbatch on one worker, however many stages there are.
func TestNeighboursRunAsOne(t *testing.T) {
	s, err := New(Spec{Name: "1f1b", Stages: 4, Microbatches: 2, Workers: []int{0, 0, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := "[[0F0 1F0 2F0 0F1 1F1 2F1 2B0 1B0 0B0 2B1 1B1 0B1 0U 1U 2U] [3F0 3B0 3F1 3B1 3U]]"
	if got := fmt.Sprint(s.Rows); got != want {
		t.Error(got)
	}
}

// The bubbles are those of the papers, for equal stages.
func TestBubble(t *testing.T) {
	for workers := 1; workers <= 5; workers++ {
		for m := 1; m <= 12; m++ {
			p, n := float64(workers), float64(m)
			checkBubble(t, dealt("gpipe", workers, 1, m), (p-1)/(n+p-1))
			checkBubble(t, dealt("1f1b", workers, 1, m), (p-1)/(n+p-1))
			if m >= workers { // F, B and W take as long as each other; 1f1b has 3(p-1) idle of 3(m+p-1)
				checkBubble(t, dealt("zb-h1", workers, 1, m), (p-1)/(3*n+p-1))
			}
			for rounds := 1; rounds <= 4 && m%workers == 0; rounds++ {
				checkBubble(t, dealt("interleaved", workers, rounds, m), (p-1)/(n*float64(rounds)+p-1))
			}
		}
	}
}

func checkBubble(t *testing.T, o Spec, want float64) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Simulate(s.Typical()).Bubble; math.Abs(got-want) > 1e-9 {
		t.Errorf("%s, %d stages, %d microbatches: bubble %g, want %g", o.Name, o.Stages, o.Microbatches, got, want)
	}
}

// The first paper on zero bubbles promises the peak of 1f1b: no stage has more
// microbatches in memory than the first one there.
func TestZeroBubbleTakesNoMoreMemory(t *testing.T) {
	for stages := 1; stages <= 6; stages++ {
		for m := 1; m <= 12; m++ {
			s, err := New(Spec{Name: "zb-h1", Stages: stages, Microbatches: m})
			if err != nil {
				t.Fatal(err)
			}
			for stage := range stages {
				if b, w := s.InFlight(stage, Backward), s.InFlight(stage, Weights); b > min(m, stages-stage) || w > min(m, stages) {
					t.Errorf("%d stages, %d microbatches: stage %d has %d in flight until B, %d until W\n%v", stages, m, stage, b, w, s)
				}
			}
		}
	}
}

// Replicas have their shares of a step, and of a smaller one in proportion.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		microbatches int
		want         []int
	}{{16, []int{12, 1, 3}}, {8, []int{6, 1, 1}}, {3, []int{3, 0, 0}}, {1, []int{1, 0, 0}}, {32, []int{24, 2, 6}}} {
		s, err := New(Spec{Name: "1f1b", Stages: 2, Microbatches: c.microbatches, Replicas: 3, Shares: []int{12, 1, 3}})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, 3)
		for _, a := range s.Order() {
			if a.Kind == Forward && a.Stage == 0 {
				got[a.Replica]++
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("of %d microbatches, replicas have %v, want %v", c.microbatches, got, c.want)
		}
	}
}
