package schedule

import (
	"errors"
	"fmt"
	"slices"
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
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(back) != fmt.Sprint(s) || !slices.EqualFunc(back.PerStage, s.PerStage, slices.Equal) {
			t.Fatalf("parsed back as\n%v", back)
		}
	})
}

func TestNewErrors(t *testing.T) {
	if _, err := New("zb1p", 1, 1); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "1f1b, forward, gpipe") {
		t.Error(err)
	}
	if _, err := New("gpipe", 0, 1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := New("gpipe", 1e6, 1); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1000000 stages are too many: use at most 65536") {
		t.Error(err)
	}
}

// The formula counts what the schedule's own actions show.
func TestInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		for stage := range s.Stages {
			got, err := InFlight(s.Name, s.Stages, s.Microbatches, stage)
			if want := s.InFlight(stage); err != nil || got != want {
				t.Fatalf("stage %d: %d, %v; its actions have %d in flight\n%v", stage, got, err, want, s)
			}
		}
	})
	if _, err := InFlight("zb1p", 1, 1, 0); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// A step of a billion microbatches is refused before anything is made, and their
// number in flight needs no schedule.
func TestBillionMicrobatches(t *testing.T) {
	for _, name := range Names() {
		if _, err := New(name, 1, 1e9); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "1000000000 microbatches are too many for a step on 1 stage: use at most 65536") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := InFlight("gpipe", 4, 1e9, 0); got != 1e9 || err != nil {
		t.Error(got, err)
	}
	if got, err := InFlight("1f1b", 4, 1e9, 0); got != 4 || err != nil {
		t.Error(got, err)
	}
}
