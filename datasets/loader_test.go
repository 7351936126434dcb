package datasets

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func slotsFor(p *Part, count, batch int) [][][]byte {
	slots := make([][][]byte, count)
	for i := range slots {
		slots[i] = p.Alloc(batch)
	}
	return slots
}

// The loader gives the batches of Read, in order, over epochs, from any start.
func TestLoaderEqualsRead(t *testing.T) {
	p, _ := numbered(t, 50, 1, Spec{Seed: 4})
	for _, start := range []Cursor{{}, {0, 16}, {2, 49}, {1, 50}} {
		for _, slots := range []int{1, 2, 5} {
			l, err := NewLoader(p, slotsFor(p, slots, 16), LoaderOptions{Batch: 16, Start: start, Epochs: 3})
			if err != nil {
				t.Fatal(err)
			}
			at := p.Next(start, 0)
			dst := p.Alloc(16)
			for {
				b, err := l.Next(context.Background())
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				n, err := p.Read(at, 16, dst)
				if err != nil || n != b.Samples || b.At != at || b.Next != p.Next(at, n) {
					t.Fatalf("batch %+v, %d samples expected at %v (%v)", b, n, at, err)
				}
				got, want := shape.View[int32](l.slots[b.Slot][1])[:n], shape.View[int32](dst[1])[:n]
				if !slices.Equal(got, want) {
					t.Fatalf("%v: samples %v, want %v", at, got, want)
				}
				at = b.Next
				l.Return(b.Slot)
			}
			if want := (Cursor{Epoch: start.Epoch + 3}); at != want {
				t.Errorf("from %v the loader ended at %v, want %v", start, at, want)
			}
			l.Close()
		}
	}
}

func TestLoaderAllocatesNothing(t *testing.T) {
	loaderAllocatesNothing(t, open(t, Spec{Source: "digits"}).Train, 64, 100)
}

func loaderAllocatesNothing(t *testing.T, p *Part, batch, batches int) {
	t.Helper()
	l, err := NewLoader(p, slotsFor(p, 2, batch), LoaderOptions{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	if a := testing.AllocsPerRun(batches, func() {
		b, err := l.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		l.Return(b.Slot)
	}); a != 0 {
		t.Errorf("%v allocations a batch", a)
	}
}

func TestLoaderCloses(t *testing.T) {
	p, _ := numbered(t, 50, 1, Spec{})
	l, err := NewLoader(p, slotsFor(p, 2, 8), LoaderOptions{Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	for range 3 { // at most one batch was still waiting
		if _, err = l.Next(context.Background()); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("a closed loader says %v", err)
	}
}

// TestLoaderNextPrefersCancellation: once ctx is done, no batch comes, though one
// is ready.
func TestLoaderNextPrefersCancellation(t *testing.T) {
	p, _ := numbered(t, 50, 1, Spec{})
	l, err := NewLoader(p, slotsFor(p, 2, 8), LoaderOptions{Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Return(b.Slot)
	for len(l.filled) == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if b, err := l.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v, %v", b, err)
		}
	}
}

func TestLoaderNextIsCancelled(t *testing.T) {
	p, _ := numbered(t, 50, 1, Spec{})
	l, err := NewLoader(p, slotsFor(p, 1, 8), LoaderOptions{Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := l.Next(ctx); !errors.Is(err, cause) { // the only slot is out
		t.Errorf("%v, want %v", err, cause)
	}
}

func TestLoaderCatchesDoubleReturn(t *testing.T) {
	p, _ := numbered(t, 8, 1, Spec{})
	l, err := NewLoader(p, slotsFor(p, 1, 8), LoaderOptions{Batch: 8, Epochs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer func() {
		if recover() == nil {
			t.Error("a slot was returned twice unnoticed")
		}
	}()
	b, err := l.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l.Return(b.Slot)
	l.Return(b.Slot)
}

func TestLoaderRefuses(t *testing.T) {
	p, _ := numbered(t, 50, 1, Spec{})
	good := slotsFor(p, 1, 8)
	cases := map[string]struct {
		slots [][][]byte
		opt   LoaderOptions
		want  error
	}{
		"no slots":   {nil, LoaderOptions{Batch: 8}, ErrDst},
		"small slot": {good, LoaderOptions{Batch: 9}, ErrDst},
		"no batch":   {good, LoaderOptions{}, ErrDst},
		"start":      {good, LoaderOptions{Batch: 8, Start: Cursor{0, 51}}, ErrSpec},
	}
	for name, c := range cases {
		if _, err := NewLoader(p, c.slots, c.opt); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestLoaderReadsRows: the samples that are asked for are in their places, and the others' places are left alone.
func TestLoaderReadsRows(t *testing.T) {
	const batch, mark = 16, 0x7e7e7e7e
	p, _ := numbered(t, 50, 1, Spec{Seed: 4})
	for _, rows := range [][]Rows{nil, {{0, 1}}, {{1, 2}, {5, 9}}} {
		slots := slotsFor(p, 2, batch)
		for _, s := range slots {
			for i := range shape.View[int32](s[1]) {
				shape.View[int32](s[1])[i] = mark
			}
		}
		l, err := NewLoader(p, slots, LoaderOptions{Batch: batch, Epochs: 1, Rows: func(_ Cursor, samples, _ int) (of []Rows, _ error) {
			for _, r := range rows {
				of = append(of, Rows{min(r.From, samples), min(r.To, samples)})
			}
			return of, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		dst := p.Alloc(batch)
		for {
			b, err := l.Next(context.Background())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := p.Read(b.At, batch, dst); err != nil || n != b.Samples {
				t.Fatal(n, err)
			}
			got, all := shape.View[int32](l.slots[b.Slot][1]), shape.View[int32](dst[1])
			for j := range b.Samples {
				want := int32(mark)
				if slices.ContainsFunc(rows, func(r Rows) bool { return r.From <= j && j < r.To }) {
					want = all[j]
				}
				if got[j] != want {
					t.Errorf("rows %v: sample %d of the batch at %v is %d, want %d", rows, j, b.At, got[j], want)
				}
				got[j] = mark
			}
			l.Return(b.Slot)
		}
		l.Close()
	}
	if _, err := p.ReadRows(Cursor{}, batch, []Rows{{3, 17}}, p.Alloc(batch)); !errors.Is(err, ErrSpec) {
		t.Errorf("rows beyond the batch: %v", err)
	}
}

// A batch of many pixels is read on several goroutines, and is the same.
func TestLoaderReadsPieces(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	dir := t.TempDir()
	cifar(t, dir, "data_batch_1.bin", 1, 450, 10)
	all := []Augment{{Name: "flip"}, {"crop", 4}, {"erase", 0.25}, {"mixup", 0.2}}
	p := openImages(t, Spec{Path: dir, Pictures: PictureOptions{Augment: all}, Split: 1}).Train
	const batch = 400
	if n := p.readers(batch); n != 3 || p.readers(100) != 1 {
		t.Fatalf("%d goroutines read a batch of %d, and %d one of 100", n, batch, p.readers(100))
	}
	if !testall.Race { // with it, pools drop what they have
		loaderAllocatesNothing(t, p, batch, 20)
	}
	for _, some := range []bool{false, true} {
		o := LoaderOptions{Batch: batch, Epochs: 2}
		list := []Rows(nil)
		if some {
			list = []Rows{{3, 5}, {7, 40}}
			o.Rows = func(Cursor, int, int) ([]Rows, error) { return list, nil }
		}
		slots := slotsFor(p, 2, batch)
		l, err := NewLoader(p, slots, o)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		want, samples := p.Alloc(batch), 0
		for {
			b, err := l.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n, err := p.ReadRows(b.At, batch, list, want)
			if err != nil || n != b.Samples {
				t.Fatalf("%d samples, want %d: %v", b.Samples, n, err)
			}
			samples += n
			rows := list
			if !some {
				rows = []Rows{{0, n}}
			}
			for i, m := range []int{4 * cifarPixels, 4 * 10} {
				for _, r := range rows {
					if !bytes.Equal(slots[b.Slot][i][r.From*m:r.To*m], want[i][r.From*m:r.To*m]) {
						t.Fatalf("field %d of rows %v at %v differs", i, r, b.At)
					}
				}
			}
			l.Return(b.Slot)
		}
		if samples != 2*p.Len() {
			t.Errorf("%d samples, want %d", samples, 2*p.Len())
		}
	}
}
