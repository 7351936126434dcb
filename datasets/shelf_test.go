package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"
)

// shelfSpecs are specs of data of each kind that is in memory.
func shelfSpecs(t *testing.T) map[string]Spec {
	rows := "a,b,word,label\n"
	for i := range 200 {
		rows += fmt.Sprintf("%d,%d.5,w%d,%s\n", i, i*7%31, i%5, []string{"yes", "no"}[i%2])
	}
	words := strings.Repeat("the cat sat on the mat and looked at the dog. ", 40)
	return map[string]Spec{
		"csv":    {Source: "csv", Path: write(t, "x.csv", rows), Seed: 3, CSV: CSVOptions{Standardize: true}},
		"text":   {Source: "text", Path: write(t, "x.txt", words), Text: TextOptions{Context: 8, Tokenizer: "bpe:280"}},
		"lines":  {Source: "lines", Path: write(t, "x.txt", strings.ReplaceAll(words, ".", ".\n")), Text: TextOptions{Tokenizer: "char"}, Lines: LineOptions{Buckets: []int{16, 64}}},
		"digits": {Source: "digits", Seed: 1},
	}
}

// firstSamples are the first samples of an epoch.
func firstSamples(t testing.TB, p *Part, epoch int) [][]byte {
	t.Helper()
	dst := p.Alloc(16)
	if _, err := p.Read(Cursor{Epoch: epoch}, 16, dst); err != nil {
		t.Error(err)
	}
	return dst
}

// TestShelf: all who open equal data at once read one copy, which has the samples of data that is opened alone.
// Its memory is counted once, and the last one that is done gives it back.
func TestShelf(t *testing.T) {
	for name, spec := range shelfSpecs(t) {
		alone := open(t, spec)
		var s Shelf
		var all sync.WaitGroup
		sets, ends := make([]*Dataset, 12), make([]func(), 12)
		for i := range sets {
			all.Go(func() {
				ds, done, err := s.Open(t.Context(), spec)
				if err != nil {
					t.Error(err)
					return
				}
				sets[i], ends[i] = ds, done
				if got, want := firstSamples(t, ds.Train, i), firstSamples(t, alone.Train, i); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: epoch %d has other samples than alone", name, i)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		if alone.Bytes() < 500 || s.Bytes() != alone.Bytes() {
			t.Errorf("%s: %d bytes are open; one copy has %d", name, s.Bytes(), alone.Bytes())
		}
		for i, ds := range sets {
			if ds != sets[0] {
				t.Errorf("%s: user %d has a copy of its own", name, i)
			}
			ends[i]()
			ends[i]() // counts once
			if want := int64(0); i == len(sets)-1 && s.Bytes() != want || i < len(sets)-1 && s.Bytes() == 0 {
				t.Errorf("%s: after %d of %d are done, %d bytes are open", name, i+1, len(sets), s.Bytes())
			}
		}
		kept := weak.Make(sets[0])
		sets, ends = nil, nil
		for end := time.Now().Add(5 * time.Second); kept.Value() != nil; runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: the data is still in memory", name)
			}
		}
	}
}

// TestShelfTellsApart: data of other options, or of a file that has changed, is not the same.
func TestShelfTellsApart(t *testing.T) {
	spec := shelfSpecs(t)["csv"]
	var s Shelf
	opened := func(spec Spec) *Dataset {
		ds, done, err := s.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(done)
		return ds
	}
	first := opened(spec)
	like := spec
	like.Like, like.GoesOn = &first.Info, true
	seed, part := spec, spec
	seed.Seed++
	part.Division = &Division{Val: 0.2, Test: 0.2}
	for name, other := range map[string]Spec{"seed": seed, "division": part, "fitted": like} {
		if ds := opened(other); ds == first || ds != opened(other) {
			t.Errorf("%s: equal options and others are not told apart", name)
		}
	}
	less := spec
	less.Memory, less.Note = 1<<30, func(string) {}
	if opened(less) != first {
		t.Error("free memory makes a difference")
	}
	text, err := os.ReadFile(spec.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spec.Path, append(text, "1,1,w1,no\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	if ds := opened(spec); ds == first || ds.Info.Fingerprint == first.Info.Fingerprint {
		t.Error("the file has changed, and the old samples come")
	}
	pattern := spec
	pattern.Path = filepath.Join(filepath.Dir(spec.Path), "*.csv")
	before := opened(pattern)
	if err := os.WriteFile(filepath.Join(filepath.Dir(spec.Path), "y.csv"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if ds := opened(pattern); ds == before {
		t.Error("a file has come, and the old samples come")
	}
}

// TestShelfFailures: a failure is nobody else's, and leaves nothing on the shelf.
func TestShelfFailures(t *testing.T) {
	var s Shelf
	spec := shelfSpecs(t)["text"]
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	spec.Text.Progress = func(string, float64) { cancel(gone) } // while the first one reads
	var all sync.WaitGroup
	x, reads := s.take(mustIdentity(t, spec), spec.stamps())
	if !reads {
		t.Fatal("there was data already")
	}
	for range 4 {
		other := spec
		other.Text.Progress = nil
		all.Go(func() {
			ds, done, err := s.Open(t.Context(), other)
			if err != nil || ds.Bytes() == 0 {
				t.Errorf("another's context ended: %v", err)
				return
			}
			done()
		})
	}
	s.read(ctx, x, spec)
	if !errors.Is(x.err, gone) {
		t.Errorf("its context has ended, and it was read: %v", x.err)
	}
	s.leave(x)
	all.Wait()
	spec.Path += "-not-there"
	if _, _, err := s.Open(t.Context(), spec); err == nil {
		t.Error("a missing file was read")
	}
	if len(s.sets) != 0 {
		t.Errorf("%d data sets are still on the shelf", len(s.sets))
	}
}

func mustIdentity(t *testing.T, s Spec) string {
	t.Helper()
	key, ok := s.identity()
	if !ok {
		t.Fatal("the data cannot be shared")
	}
	return key
}
