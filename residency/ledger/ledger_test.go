package ledger

import "testing"

func TestSeriesMedian(t *testing.T) {
	l := New([]string{"d"}, nil)
	for _, n := range []int64{100, 7, 3, 3, 9} { // the first is not steady
		l.now[trackIn] = n
		l.Step()
	}
	if got, want := l.SteadyState().CopyIn, (Series{3, 3, 9, 9}); got != want {
		t.Errorf("series %+v, want %+v", got, want)
	}
}
