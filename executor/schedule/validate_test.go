package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
		"wrong row":        {head2 + "0: 1F0 0F1 0B0 0B1 0U\n" + good1, "1F0 stands in the row of worker 0, but its stage is on worker 1"},
		"no such mb":       {head2 + "0: 0F0 0F1 0F2 0B0 0B1 0U\n" + good1, "0F2 is outside"},
		"deadlock":         {head2 + "0: 0F0 0B0 0F1 0B1 0U\n" + good1, "0B0 is in a deadlock: it waits for 1B0"},
		"no microbatches":  {"schedule x stages 1 microbatches 0\n0: 0U\n", "use at least 1 of each"},
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
	s := named("gpipe", 2, 1)
	s.Rows[0] = []Action{{Kind: Forward}, {Kind: Update}, {Kind: Backward}}
	err := s.Validate()
	if err == nil || !strings.Contains(err.Error(), "[0B0]") {
		t.Error(err)
	}
}

// after is the kind of which each action needs one of the given kind.
func after(k Kind) Kind {
	if k == Backward {
		return Weights
	}
	return 0
}

// TestMutated removes, repeats or swaps actions at random: Validate must
// accept exactly the schedules that still run and keep the order.
func TestMutated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		row := rapid.IntRange(0, len(s.Rows)-1).Draw(t, "row")
		acts := s.Rows[row]
		if len(acts) == 0 {
			return // a worker without stages
		}
		i := rapid.IntRange(0, len(acts)-1).Draw(t, "i")
		if rapid.Bool().Draw(t, "drop") {
			s.Rows[row] = slices.Delete(slices.Clone(acts), i, i+1)
		} else {
			s.Rows[row] = slices.Insert(slices.Clone(acts), i, acts[i])
		}
		err := s.Validate()
		alone := acts[i].Kind != Forward && acts[i].Kind != Update && !s.Has(acts[i].Kind) && !s.Has(after(acts[i].Kind))
		last := acts[i].Kind == Update && acts[i].Replica > 0 && s.UpdatesFirst()
		if alone || last {
			if err != nil { // the rest is a schedule without that kind, or without later replicas' updates
				t.Fatal(err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Fatalf("accepted without or with twice %v:\n%v", acts[i], s)
		}
		if back, err := Parse(s.String()); err != nil || !slices.EqualFunc(back.Rows, s.Rows, slices.Equal) {
			t.Fatalf("prints as\n%v, read as\n%v%v", s, back, err)
		}
	})
}

// TestValidateLongChain validates as many stages as a schedule's file can have within
// its size: the time must grow with their number, not with its square.
func TestValidateLongChain(t *testing.T) {
	const stages = 16000
	s := Schedule{Name: "chain", Stages: stages, Microbatches: 1, Replicas: 1, Workers: upTo(stages)}
	for i := range stages {
		s.Rows = append(s.Rows, []Action{{i, Forward, 0, 0}, {i, Backward, 0, 0}, {i, Update, 0, 0}})
	}
	begin := time.Now()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("validating %d stages took %v", stages, took)
	}
}
