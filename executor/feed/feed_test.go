package feed_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/berth-ml/berth/datasets"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/internal/smallrun"
)

// Steps are settled in order, each once, and the reading goes on to the end of
// the last epoch.
func TestFeeder(t *testing.T) {
	r := smallrun.New(t, "cpu")
	f, err := feed.New(r.Devices[0], r.Program, r.Data.Train, datasets.LoaderOptions{Batch: smallrun.Batch, Epochs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	var settled []datasets.Cursor
	done := func(b datasets.Batch) error {
		settled = append(settled, b.At)
		return nil
	}
	for {
		b, err := f.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = f.Step(t.Context(), b)
		}
		if err == nil {
			err = f.Settle(t.Context(), 1, done)
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Queued() != 1 {
			t.Errorf("%d steps are queued", f.Queued())
		}
	}
	if err := f.Settle(t.Context(), 0, done); err != nil {
		t.Fatal(err)
	}
	var want []datasets.Cursor
	for i := range 2 * smallrun.Steps {
		want = append(want, datasets.Cursor{Epoch: i / smallrun.Steps, Index: i % smallrun.Steps * smallrun.Batch})
	}
	if !slices.Equal(settled, want) || f.Queued() != 0 {
		t.Errorf("settled %v, want %v", settled, want)
	}
}

// The batch of a step that is not settled can still be had.
func TestFailed(t *testing.T) {
	r := smallrun.New(t, "cpu")
	f, err := feed.New(r.Devices[0], r.Program, r.Data.Train, datasets.LoaderOptions{Batch: smallrun.Batch, Epochs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ticket := r.Program.Next()
	if err := f.Step(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, got, ok := f.Failed(ticket); !ok || got.Samples != smallrun.Batch || len(got.Fields) != 2 {
		t.Errorf("batch %+v, %v", got, ok)
	}
	if err := f.Settle(t.Context(), 0, func(datasets.Batch) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := f.Failed(ticket); ok {
		t.Error("a settled step has a batch")
	}
}

// Each ends with the first error of done, or of ctx, and nothing is queued.
func TestEachEnds(t *testing.T) {
	r := smallrun.New(t, "cpu")
	failure, n := errors.New("enough"), 0
	err := feed.Each(t.Context(), r.Devices[0], r.Program, r.Data.Train, func(datasets.Batch) error {
		if n++; n == 2 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) || n != 2 {
		t.Errorf("%d batches, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = feed.Each(ctx, r.Devices[0], r.Program, r.Data.Train, func(datasets.Batch) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	n = 0
	err = feed.Each(t.Context(), r.Devices[0], r.Program, r.Data.Train, func(b datasets.Batch) error {
		n += b.Samples
		return nil
	})
	if err != nil || n != r.Data.Train.Len() {
		t.Errorf("%d samples of %d, %v", n, r.Data.Train.Len(), err)
	}
}
