package train

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-ml/berth/executor/ranks"
)

// TestNewsEnd: the rank that has the losses may end before the last look of rank 0, which hears of that then, and ends too.
func TestNewsEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	loop := ranks.NewLoop(2, func(int) {})
	first, holder := &news{transport: loop[0], peer: 1}, &news{transport: loop[1]}
	hear := func() (s seen, ok bool) {
		s, ok, err := first.hear()
		if err != nil {
			t.Fatal(err)
		}
		return s, ok
	}
	if _, ok := hear(); ok {
		t.Fatal("something was heard before it was sent")
	}
	holder.send(seen{at: 3, over: 2, mean: 0.5})
	ended := make(chan error, 1)
	go func() { ended <- holder.end(ctx) }()
	for _, want := range []seen{{at: 3, over: 2, mean: 0.5}, {}} {
		s, ok := hear()
		for ; !ok && ctx.Err() == nil; s, ok = hear() {
			time.Sleep(time.Millisecond)
		}
		if s != want {
			t.Errorf("heard %+v, want %+v", s, want)
		}
	}
	if _, ok := hear(); ok {
		t.Error("something was heard after the end")
	}
	if err := first.end(ctx); err != nil {
		t.Errorf("rank 0: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the holder: %v", err)
	}
	var group errgroup.Group
	for _, x := range loop {
		group.Go(x.Close)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
