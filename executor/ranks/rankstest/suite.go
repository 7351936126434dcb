package rankstest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// Play is all but failures. The transport can be used afterwards.
func Play(ctx context.Context, t ranks.Transport) error {
	for _, part := range []struct {
		name string
		play func(context.Context, ranks.Transport) error
	}{
		{"order", order}, {"lengths", lengths}, {"tags", tags}, {"many", many}, {"goroutines", goroutines}, {"sums", sums}, {"work", work},
	} {
		if err := part.play(ctx, t); err != nil {
			return fmt.Errorf("%s: rank %d of %d: %w", part.name, t.Rank(), t.Size(), err)
		}
	}
	return nil
}

// content is message i between two ranks.
func content(from, to, i, length int) []byte {
	b := make([]byte, length)
	for j := range b {
		b[j] = byte(31*from + 17*to + 7*i + j + j>>8)
	}
	return b
}

// arrival is a message that is to come.
type arrival struct {
	event device.Event
	from  int
	got   []byte
	want  []byte
}

// traffic is what a rank has posted.
type traffic struct {
	t     ranks.Transport
	sent  []device.Event
	comes []arrival
}

func (x *traffic) send(to int, tag ranks.Tag, i, length int) {
	x.sent = append(x.sent, x.t.Send(to, tag, content(x.t.Rank(), to, i, length)))
}

func (x *traffic) recv(from int, tag ranks.Tag, i, length int) {
	a := arrival{from: from, got: make([]byte, length), want: content(from, x.t.Rank(), i, length)}
	a.event = x.t.Recv(from, tag, a.got)
	x.comes = append(x.comes, a)
}

// end waits for all messages, and compares what has come.
func (x *traffic) end(ctx context.Context) error {
	for i, a := range x.comes {
		if err := a.event.Wait(ctx); err != nil {
			return fmt.Errorf("receive %d, of rank %d: %w", i, a.from, err)
		}
		if !bytes.Equal(a.got, a.want) {
			return fmt.Errorf("receive %d, of rank %d: its %d bytes are others", i, a.from, len(a.got))
		}
	}
	for i, e := range x.sent {
		if err := e.Wait(ctx); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
		if !e.Done() || e.Err() != nil {
			return fmt.Errorf("send %d is open after the wait, or failed: %v", i, e.Err())
		}
	}
	return nil
}

// others calls a function for each other rank.
func others(t ranks.Transport, f func(peer int)) {
	for peer := range t.Size() {
		if peer != t.Rank() {
			f(peer)
		}
	}
}

// order: messages with one tag arrive in the order of their sends, with receives that are there first and that come later.
func order(ctx context.Context, t ranks.Transport) error {
	x := traffic{t: t}
	for i := range 100 {
		others(t, func(peer int) { x.recv(peer, ranks.TagTensor, i, 1+i%7) })
	}
	if err := meet(ctx, t); err != nil {
		return err
	}
	for i := range 200 {
		others(t, func(peer int) { x.send(peer, ranks.TagTensor, i, 1+i%7) })
	}
	if err := meet(ctx, t); err != nil {
		return err
	}
	for i := range 100 {
		others(t, func(peer int) { x.recv(peer, ranks.TagTensor, 100+i, 1+(100+i)%7) })
	}
	return x.end(ctx)
}

// meet returns once all ranks have called it.
func meet(ctx context.Context, t ranks.Transport) error {
	x := traffic{t: t}
	others(t, func(peer int) {
		x.send(peer, ranks.TagControl, 0, 1)
		x.recv(peer, ranks.TagControl, 0, 1)
	})
	return x.end(ctx)
}

// lengths: from none to more than any transport sends at once without a receive.
func lengths(ctx context.Context, t ranks.Transport) error {
	x := traffic{t: t}
	for i, n := range []int{0, 1, 7, 4095, 4096, 4097, 65_537, 1 << 20, 5<<20 + 3, 0, 3} {
		others(t, func(peer int) {
			x.send(peer, ranks.TagBench, i, n)
			x.recv(peer, ranks.TagBench, i, n)
		})
	}
	return x.end(ctx)
}

// tags: a message passes those with another tag that nobody receives yet, also large ones.
func tags(ctx context.Context, t ranks.Transport) error {
	x := traffic{t: t}
	list := []ranks.Tag{ranks.TagReduce, ranks.TagTensor, ranks.TagBeat, ranks.TagOrders, ranks.TagLend}
	for i, tag := range list {
		others(t, func(peer int) { x.send(peer, tag, i, 1<<20+i) })
	}
	for i := range list {
		late := len(list) - 1 - i
		one := traffic{t: t}
		others(t, func(peer int) { one.recv(peer, list[late], late, 1<<20+late) })
		if err := one.end(ctx); err != nil {
			return err
		}
	}
	return x.end(ctx)
}

// many: more messages are open than a transport may hand on at once.
func many(ctx context.Context, t ranks.Transport) error {
	x := traffic{t: t}
	for i := range 1200 {
		others(t, func(peer int) { x.send(peer, ranks.TagBench, i, 11) })
	}
	for i := range 1200 {
		others(t, func(peer int) { x.recv(peer, ranks.TagBench, i, 11) })
	}
	return x.end(ctx)
}

// goroutines: any of them may send and receive, each with its own tag here.
func goroutines(ctx context.Context, t ranks.Transport) error {
	var wg sync.WaitGroup
	list := []ranks.Tag{ranks.TagControl, ranks.TagReduce, ranks.TagTensor, ranks.TagBench}
	failed := make([]error, len(list))
	for i, tag := range list {
		wg.Go(func() {
			for turn := range 50 {
				x := traffic{t: t}
				others(t, func(peer int) {
					x.send(peer, tag, turn, 100*i+turn)
					x.recv(peer, tag, turn, 100*i+turn)
				})
				if failed[i] = x.end(ctx); failed[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// sums: a reduction has the bits of a tree over the ranks.
func sums(ctx context.Context, t ranks.Transport) error {
	for _, elems := range []int{0, 1, 1000, 1<<19 + 3} {
		x := vector(t.Rank(), elems)
		if err := ranks.NewReduction(t, elems, add).Sum(ctx, x); err != nil {
			return err
		}
		want := tree(elems, 0, t.Size())
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
				return fmt.Errorf("element %d of %d is %v, want %v", i, elems, x[i], want[i])
			}
		}
	}
	return nil
}

// work: while work of a Runner waits for a message, others go on, and work that comes later waits for its end.
func work(ctx context.Context, t ranks.Transport) error {
	runner, ok := t.(ranks.Runner)
	if !ok {
		return nil
	}
	var failed error
	ended := false
	first := runner.Run(func(t ranks.Transport) {
		x := traffic{t: t}
		others(t, func(peer int) { x.recv(peer, ranks.TagTensor, 0, 1<<20) })
		failed, ended = x.end(ctx), true
	})
	var order error
	later := runner.Run(func(ranks.Transport) {
		if !ended {
			order = errors.New("work began before the end of the work before it")
		}
	})
	if err := meet(ctx, t); err != nil { // nobody has sent what the work waits for
		return err
	}
	if first.Done() || later.Done() {
		return errors.New("work has ended before its messages")
	}
	if err := meet(ctx, t); err != nil {
		return err
	}
	x := traffic{t: t}
	others(t, func(peer int) { x.send(peer, ranks.TagTensor, 0, 1<<20) })
	if err := x.end(ctx); err != nil {
		return err
	}
	return cmp.Or(later.Wait(ctx), first.Wait(ctx), failed, order)
}

func add(y, a, b []float32) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

// vector is what a rank adds: numbers of many sizes, so that another order of sums has other bits.
func vector(rank, elems int) []float32 {
	x := make([]float32, elems)
	seed := uint32(rank + 1)
	for i := range x {
		seed = seed*1664525 + 1013904223
		x[i] = math.Float32frombits(seed&0x80ff_ffff | (100+seed>>8%40)<<23&0x7f00_0000)
	}
	return x
}

// tree is the sum of ranks from to to-1: the left half has the largest power of two below their number.
func tree(elems, from, to int) []float32 {
	if to-from == 1 {
		return vector(from, elems)
	}
	mid := from + 1<<(bits.Len(uint(to-from-1))-1)
	sum := make([]float32, elems)
	add(sum, tree(elems, from, mid), tree(elems, mid, to))
	return sum
}

// Fail lets rank 0 fail while its messages are open, and end all ranks with the code 42. The others wait for that, so
// Fail returns only on the loop, or with what is wrong.
func Fail(ctx context.Context, t ranks.Transport) error {
	never := t.Recv((t.Rank()+1)%t.Size(), ranks.TagBench, make([]byte, 8)) // nobody sends it
	if t.Rank() != 0 {
		if err := never.Wait(ctx); err == nil || ctx.Err() != nil {
			return fmt.Errorf("rank %d: a receive of nothing: %v, and the context %v", t.Rank(), err, ctx.Err())
		}
		return nil
	}
	cause := errors.New("the test fails")
	working, within := make(chan struct{}), error(cause)
	if runner, ok := t.(ranks.Runner); ok {
		runner.Run(func(t ranks.Transport) {
			close(working)
			within = t.Recv(1, ranks.TagBench, make([]byte, 8)).Wait(ctx)
		})
		<-working
	}
	t.Fail(cause) // returns once the thread of a Runner has ended
	if !errors.Is(within, cause) {
		return fmt.Errorf("work that waits ends with %v, want %v", within, cause)
	}
	for name, e := range map[string]device.Event{"an open receive": never, "a later send": t.Send(1, ranks.TagBench, make([]byte, 8)),
		"a later receive": t.Recv(1, ranks.TagBench, make([]byte, 8))} {
		if err := e.Wait(ctx); !errors.Is(err, cause) {
			return fmt.Errorf("%s after Fail: %v, want %v", name, err, cause)
		}
	}
	t.Abort(42)
	return nil
}
