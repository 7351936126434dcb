package admission

import "testing"

// called reports whether a call's turn has come.
func called(w *Waiter[int]) bool {
	select {
	case <-w.Turn():
		return true
	default:
		return false
	}
}

// A call waits behind the earlier ones whose claims it shares, and behind no others.
func TestLineIsFirstComeFirstServed(t *testing.T) {
	x := NewLine(func(a, b *int) bool { return *a == *b })
	if x.Behind(nil, []int{1}) {
		t.Error("behind nobody")
	}
	a, b, c := x.Join([]int{1, 2}, false), x.Join([]int{2, 3}, false), x.Join([]int{4}, false)
	if !x.Behind(nil, []int{3}) || x.Behind(nil, []int{5}) {
		t.Error("a newcomer waits behind those whose claims it shares")
	}
	x.Call()
	if !called(a) || called(b) || !called(c) {
		t.Error("called: the first and the third expected")
	}
	x.Leave(a)
	if !called(b) {
		t.Error("the second is not called after the first has left")
	}
	first := x.Join([]int{3}, true)
	if x.Behind(first, []int{3}) || !x.Behind(b, []int{2, 3}) {
		t.Error("one at the front goes first")
	}
	x.Leave(first)
	x.Leave(b)
	x.Leave(c)
	if x.Len() != 0 {
		t.Errorf("%d calls left", x.Len())
	}
}
