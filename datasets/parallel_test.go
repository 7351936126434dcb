package datasets

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Results come in the order of the things, and the first error in that order ends
// all.
func TestInParallel(t *testing.T) {
	failed := errors.New("failed")
	for _, failAt := range []int{-1, 0, 70} {
		var got []int
		err := inParallel(t.Context(), func(yield func(int) error) error {
			for i := range 200 {
				if err := yield(i); err != nil {
					return err
				}
			}
			return nil
		}, func(i int) (int, error) {
			if i%7 == 0 {
				time.Sleep(10 * time.Microsecond)
			}
			if failAt >= 0 && i >= failAt {
				return 0, failed
			}
			return 2 * i, nil
		}, func(i int) error { got = append(got, i); return nil })
		want := failAt
		if failAt < 0 {
			want = 200
		}
		if len(got) != want || !slices.IsSorted(got) || (failAt >= 0) != errors.Is(err, failed) {
			t.Errorf("failing at %d: %d results, %v", failAt, len(got), err)
		}
	}
}

// Its context and an error of producing or collecting end it, and nothing of it
// runs on.
func TestInParallelEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	failed := errors.New("failed")
	forever := func(yield func(int) error) error {
		for {
			if err := yield(1); err != nil {
				return err
			}
		}
	}
	same := func(i int) (int, error) { return i, nil }
	if err := inParallel(ctx, forever, same, func(int) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := inParallel(t.Context(), forever, same, func(int) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if err := inParallel(t.Context(), func(func(int) error) error { return failed }, same, func(int) error { return nil }); !errors.Is(err, failed) {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
