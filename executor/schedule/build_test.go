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
}
