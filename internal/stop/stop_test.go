package stop

import (
	"errors"
	"testing"
)

// TestEach walks lists of many lengths, and stops at each question in turn.
func TestEach(t *testing.T) {
	over := errors.New("over")
	items := make([]int, 10*every)
	for last := range 12 {
		asked := 0
		c := When(func() error {
			if asked++; asked > last {
				return over
			}
			return nil
		})
		walked := 0
		for range 10 { // short lists count together
			for i := range Each(c, items[:every]) {
				if i >= every {
					t.Fatalf("index %d", i)
				}
				walked++
			}
		}
		want := min(last+1, 10)*every - 1
		if last >= 10 {
			want = 10 * every
		}
		if walked != want {
			t.Errorf("stopped at question %d: walked %d items, want %d", last+1, walked, want)
		}
		if err := c.Err(); (err != nil) != (last <= 10) || err != nil && !errors.Is(err, over) {
			t.Errorf("stopped at question %d: %v", last+1, err)
		}
		if stopped := last <= 10; stopped && asked != last+1 {
			t.Errorf("asked %d times after it was told to stop", asked-last-1)
		}
	}
}

// TestNever: without a function nothing stops.
func TestNever(t *testing.T) {
	c, walked := When(nil), 0
	for range Each(c, make([]int, 3*every)) {
		walked++
	}
	if walked != 3*every || c.Err() != nil {
		t.Errorf("walked %d items: %v", walked, c.Err())
	}
}
