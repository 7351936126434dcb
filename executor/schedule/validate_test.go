package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"

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
	s := gpipe(2, 1)
	s.PerStage[0] = []Action{{0, Forward, 0}, {0, Update, 0}, {0, Backward, 0}}
	err := s.Validate()
	if err == nil || !strings.Contains(err.Error(), "[0B0]") {
		t.Error(err)
	}
}

// TestMutated removes, repeats or swaps actions at random: Validate must
// accept exactly the schedules that still run and keep the order.
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
			if err != nil { // the rest is a forward-only schedule
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
