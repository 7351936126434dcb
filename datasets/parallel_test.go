package datasets

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
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

// endsAfter is a context that is done once it was asked so often.
type endsAfter struct {
	context.Context
	asks atomic.Int64
	most int64
}

func (c *endsAfter) Err() error {
	if c.asks.Add(1) > c.most {
		return context.Canceled
	}
	return nil
}

// Whenever the context ends, opening data ends, and says so.
func TestOpenEndsWithItsContext(t *testing.T) {
	const rows = 40_000
	csv := write(t, "x.csv", "a,b,c,d,y\n"+strings.Repeat("1,2,3,4,5\n6,7,8,9,1\n", rows/2))
	arrays := filepath.Join(t.TempDir(), "x.safetensors")
	if err := safetensors.WriteFile(arrays, []safetensors.Entry{
		{Name: "input", Meta: shape.Meta{DType: shape.Uint8, Shape: shape.Of(rows, 20)}, Bytes: make([]byte, rows*20)},
		{Name: "target", Meta: shape.F32(rows, 4), Bytes: make([]byte, rows*16)},
	}, nil); err != nil {
		t.Fatal(err)
	}
	images := folder(t, map[string][]byte{"train-images-idx3-ubyte": idx(rows, 4, 5), "train-labels-idx1-ubyte": idx(rows)})
	regression := CSVOptions{Task: TaskRegression, Standardize: true}
	for name, c := range map[string]struct {
		spec Spec
		asks int64 // at least: for reading, for the fingerprint, for each pass over the samples
	}{
		"csv":     {Spec{Source: "csv", Path: csv, CSV: CSVOptions{Standardize: true}}, 2*7 + 4 + 1 + 2 + 1},
		"numbers": {Spec{Source: "csv", Path: csv, ScaleTarget: true, CSV: regression}, 2*7 + 4 + 2*(2+1)},
		"text":    {Spec{Source: "text", Path: csv, Text: TextOptions{Context: 8}}, 2*2 + 2*(6+1)},
		"tensors": {Spec{Source: "tensors", Path: arrays, UnitTarget: true}, 2*(4+3) + 3 + 2*4},
		"images":  {Spec{Source: "mnist", Path: images}, 2*(4+1) + 4 + 1 + 1},
	} {
		whole := &endsAfter{Context: t.Context(), most: 1 << 60}
		if _, err := Open(whole, c.spec); err != nil {
			t.Fatal(name, err)
		}
		n := whole.asks.Load()
		if n < c.asks {
			t.Errorf("%s: the context is asked %d times, want %d or more", name, n, c.asks)
		}
		for most := int64(0); most < n; most += 1 + n/8 {
			if _, err := Open(&endsAfter{Context: t.Context(), most: most}, c.spec); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: done when it is asked %d times of %d: %v", name, most, n, err)
			}
		}
	}
}

// Passes over samples that are in memory end with the context.
func TestPassesEndWithTheirContext(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	pixels := pixelColumn(Field{"input", shape.F32(2)}, []byte{1, 2}, ImageOptions{}.scale(255))
	labels := storedColumn(Field{"target", shape.I32()}, []byte{1}, safetensors.U8)
	images := &table{rows: 1, columns: []column{pixels, labels}}
	values, part := []float32{1, 2}, &Part{table: images, count: 1}
	_, fit := fitScaling(done, part, 2, rowsOf(values, 2))
	_, print := fingerprint(done, Spec{}, nil, images)
	_, numbers := classNumbers(done, []*table{images})
	data := &csvClasses{classes: []int32{0}, classOf: map[string]int32{"a": 0}}
	for name, err := range map[string]error{
		"fit": fit, "scale": (&Scaling{[]float64{0, 0}, []float64{1, 1}}).apply(done, values),
		"fingerprint": print, "classes": numbers, "renumber": data.renumber(done, []string{"a"}), "unit": unit(done, &labels),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
