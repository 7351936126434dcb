package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/berth-ml/berth/datasets/columns"
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
	info := first.Info
	info.Scaling = &Scaling{Mean: info.Scaling.Std, Std: info.Scaling.Std}
	like := spec
	like.Like, like.GoesOn = &info, true
	seed, part := spec, spec
	seed.Seed++
	part.Division = &Division{Val: 0.2, Test: 0.2}
	for name, other := range map[string]Spec{"seed": seed, "division": part, "fitted": like} {
		if ds := opened(other); ds == first || reflect.DeepEqual(firstSamples(t, ds.Train, 0), firstSamples(t, first.Train, 0)) || ds != opened(other) {
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

// goingOn is the spec of a run that goes on, with what its checkpoint says of the data.
func goingOn(t *testing.T, s Spec, ds *Dataset) Spec {
	t.Helper()
	text, err := json.Marshal(ds.Info)
	if err != nil {
		t.Fatal(err)
	}
	var info Info
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	switch s.Source {
	case "csv":
		s.Like, s.GoesOn = &info, true
		s.Columns.Columns = ds.Options
	case "text", "lines":
		s.Text.Known = info.Tokenizer
	}
	return s
}

// TestShelfOfARunThatGoesOn: one that begins and one that goes on have one copy of equal data, whichever is
// there first, and each has the samples, the description and the notes that it has alone. That of the second is
// not read, if it goes on.
func TestShelfOfARunThatGoesOn(t *testing.T) {
	specs := shelfSpecs(t)
	kinds := specs["csv"]
	kinds.CSV.Standardize, kinds.CSV.Task, kinds.ScaleTarget = true, TaskRegression, true
	kinds.CSV.Labels, kinds.Columns.Columns = []string{"b"}, []columns.Option{{Name: "word", Kind: columns.Category}}
	numbers := specs["csv"]
	rows := "a,b,twin,label\n"
	for i := range 200 {
		rows += fmt.Sprintf("%d,%d.5,%d,%d\n", i, i*7%31, i%2, i%2) // a column tells the class: there is a note
	}
	numbers.Path, numbers.Balance = write(t, "numbers.csv", rows), true
	divided := kinds
	divided.Division = &Division{Val: 0.2, Test: 0.1}
	specs["kinds"], specs["numbers"], specs["divided"] = kinds, numbers, divided
	for name, begins := range specs {
		goes := goingOn(t, begins, open(t, begins))
		for order, pair := range [][2]Spec{{begins, goes}, {goes, begins}} {
			var s Shelf
			var sets [2]*Dataset
			alone := [2]*Dataset{open(t, pair[0]), open(t, pair[1])}
			for i, spec := range pair {
				var spoiled []byte
				if i == 1 && order == 0 && spec.Path != "" {
					spoiled = spoil(t, spec.Path)
				}
				ds, done, err := s.Open(t.Context(), spec)
				if spoiled != nil {
					rewrite(t, spec.Path, spoiled)
				}
				if err != nil {
					t.Fatal(name, err)
				}
				defer done()
				sets[i] = ds
				if !reflect.DeepEqual(firstSamples(t, ds.Train, 3), firstSamples(t, alone[i].Train, 3)) || !reflect.DeepEqual(firstSamples(t, ds.Val, 0), firstSamples(t, alone[i].Val, 0)) {
					t.Errorf("%s, order %d: set %d has other samples than alone", name, order, i)
				}
				if ds.Info.hash() != alone[i].Info.hash() || !slices.Equal(ds.Notes, alone[i].Notes) || !reflect.DeepEqual(ds.Options, alone[i].Options) {
					t.Errorf("%s, order %d: set %d says\n%+v\nalone\n%+v", name, order, i, ds, alone[i])
				}
			}
			if got, want := s.Bytes(), alone[0].Bytes(); want < 500 || got < want || got > want && (name != "divided" || got > want+4*200) { // which has a list of its 200 rows
				t.Errorf("%s, order %d: %d bytes are open; one copy has %d", name, order, got, want)
			}
		}
	}
}

// spoil replaces what a file has, so that only its contents tell that it has changed.
func spoil(t *testing.T, path string) (was []byte) {
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, bytes.Repeat([]byte("?"), len(was)))
	return was
}

// rewrite keeps the time of a file.
func rewrite(t *testing.T, path string, text []byte) {
	st, err := os.Stat(path)
	if err == nil {
		err = errors.Join(os.WriteFile(path, text, 0o644), os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestShelfOfSeeds: data that is divided and ordered otherwise has its samples in common, where they are the same.
func TestShelfOfSeeds(t *testing.T) {
	for _, name := range []string{"digits", "text", "lines"} {
		spec := shelfSpecs(t)[name]
		var s Shelf
		_, done, err := s.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		one := s.Bytes()
		spec.Seed++
		alone := open(t, spec)
		second, end, err := s.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		if s.Bytes() != one {
			t.Errorf("%s: %d bytes are open, and with one seed %d", name, s.Bytes(), one)
		}
		if !reflect.DeepEqual(firstSamples(t, second.Train, 1), firstSamples(t, alone.Train, 1)) {
			t.Errorf("%s: other samples than alone", name)
		}
	}
}

// TestShelfRightAfter: data that is opened again before the garbage collector has come is not read again, also by a run
// that goes on. After that, and where a file has changed, it is.
func TestShelfRightAfter(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	spec := shelfSpecs(t)["csv"]
	var s Shelf
	opened := func(spec Spec) weak.Pointer[table] {
		t.Helper()
		ds, done, err := s.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if s.Bytes() != ds.Bytes() {
			t.Errorf("%d bytes are open of %d", s.Bytes(), ds.Bytes())
		}
		done()
		return weak.Make(ds.Train.table)
	}
	goes := goingOn(t, spec, open(t, spec))
	first := opened(spec)
	for range mostLeft + 1 {
		if opened(spec) != first || opened(goes) != first {
			t.Error("it was read again")
		}
	}
	if n := s.Bytes(); n != 0 || len(s.left) != 2 {
		t.Errorf("%d bytes are open, and %d sets are remembered", n, len(s.left))
	}
	text, err := os.ReadFile(spec.Path)
	if err == nil {
		err = os.WriteFile(spec.Path, append(text, "1,1,w1,no\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	changed := opened(spec)
	if changed == first {
		t.Error("the file has changed, and the old samples come")
	}
	for end := time.Now().Add(5 * time.Second); changed.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the data is still in memory")
		}
	}
	if opened(spec) == changed {
		t.Error("it is there after it was freed")
	}
}

// TestShelfInABusyFolder: what happens in the working folder has to do with no data that is elsewhere.
func TestShelfInABusyFolder(t *testing.T) {
	specs := shelfSpecs(t)
	t.Chdir(t.TempDir())
	for name, spec := range specs {
		var s Shelf
		var sets [2]*Dataset
		for i := range sets {
			if err := os.WriteFile(fmt.Sprint(name, i), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			ds, done, err := s.Open(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			sets[i] = ds
		}
		if sets[0] != sets[1] {
			t.Errorf("%s was read twice", name)
		}
		if n := len(specs[name].stamps()); spec.Path == "" && n > 0 || n > 1 {
			t.Errorf("%s is read from %d files", name, n)
		}
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

func mustIdentity(t *testing.T, s Spec) identity {
	t.Helper()
	id, ok := s.identity()
	if !ok {
		t.Fatal("the data cannot be shared")
	}
	return id
}
