package eager

import "testing"

func TestFlights(t *testing.T) {
	var f flights
	sure, unsure := &work{entry: &entry{sure: true}}, &work{entry: &entry{}}
	for i := range 100 {
		w := sure
		if i%3 == 0 {
			w = unsure
		}
		f.add(w)
		if f.newest() != w {
			t.Fatal("the newest is another")
		}
		if i%2 == 1 && f.oldest() != f.take() {
			t.Fatal("the oldest is another")
		}
	}
	if f.count() != 50 || f.unsure != 17 {
		t.Errorf("%d calls, %d unsure", f.count(), f.unsure)
	}
	for f.count() > 0 {
		f.take()
	}
	if f.unsure != 0 || len(f.list) != 0 {
		t.Errorf("%d calls left, %d unsure", len(f.list), f.unsure)
	}
}
