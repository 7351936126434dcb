package costs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

var here = Machine{CPU: "test", Cores: 2}

func mustOpen(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path, here)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTimesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "costs.json")
	f := mustOpen(t, path)
	k := Key{"work", "cpu 1 of cpu 1"}
	if _, ok := f.Seconds(k); ok {
		t.Fatal("an empty file knows a time")
	}
	if err := f.Add(t.Context(), map[Key]float64{k: 0.25}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*File{f, mustOpen(t, path)} {
		if s, ok := f.Seconds(k); !ok || s != 0.25 {
			t.Error(s, ok)
		}
	}
}

// A file that is of no use counts as empty, with a warning, and is replaced if it
// is of times.
func TestUselessFile(t *testing.T) {
	for text, want := range map[string]error{
		"":                             nil,
		"{":                            ErrOther,
		"[1]":                          ErrOther,
		"data: digits\n":               ErrOther,
		`{"weights": 1}`:               ErrOther,
		`{"berth_costs": 2}`:           ErrDamaged,
		"{\n\t\"berth_costs\": 1, \"m": ErrDamaged,
		`{"berth_costs": 1, "machine": {"cpu": "another", "cores": 2}}`:                                                                              ErrForeign,
		`{"berth_costs": 1, "machine": {"cpu": "test", "cores": 2}, "segments": [{"work": "a", "on": "b", "seconds": 1}, {"seconds": 1}]}`:           ErrDamaged,
		`{"berth_costs": 1, "machine": {"cpu": "test", "cores": 2}, "segments": [{"work": "a", "on": "b", "seconds": -1}]}`:                          ErrDamaged,
		`{"berth_costs": 1, "machine": {"cpu": "test", "cores": 2}, "segments": [{"work": "a", "on": "b", "seconds": 1e308}]}`:                       ErrDamaged,
		`{"berth_costs": 1, "machine": {"cpu": "test", "cores": 2}, "segments": [{"work": "a", "on": "b", "seconds": 1}], "runs": {"a": [1, 1001]}}`: ErrDamaged,
		`{"berth_costs": 1, "machine": {"cpu": "test", "cores": 2, "build": "older"}, "segments": [{"work": "a", "on": "b", "seconds": 1}]}`:         ErrForeign,
	} {
		path := filepath.Join(t.TempDir(), "costs.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, here)
		if !errors.Is(err, want) || f == nil || len(f.seconds) > 0 {
			t.Errorf("%s: %v, %v", text, err, f)
		}
		err = f.Add(t.Context(), map[Key]float64{{"x", "y"}: 1})
		if errors.Is(want, ErrOther) {
			if b, _ := os.ReadFile(path); !errors.Is(err, ErrOther) || string(b) != text {
				t.Errorf("%s was replaced by %s: %v", text, b, err)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		}
		if f := mustOpen(t, path); len(f.seconds) != 1 {
			t.Errorf("%s: %v", text, f.seconds)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("files are left: %v", left)
		}
	}
}

// A file keeps the newest times, and its writer all of them.
func TestOldTimesGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	first, second := Key{"first", "on"}, Key{"second", "on"}
	if err := mustOpen(t, path).Add(t.Context(), map[Key]float64{first: 1, second: 1}); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path)
	if err := f.Add(t.Context(), map[Key]float64{first: 2}); err != nil {
		t.Fatal(err)
	}
	many := map[Key]float64{}
	for i := range mostTimes - 1 {
		many[Key{fmt.Sprint(i), "on"}] = 1
	}
	if err := f.Add(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	if s, known := f.Seconds(second); !known || s != 1 {
		t.Errorf("the writer has forgotten a time: %v, %v", s, known)
	}
	f = mustOpen(t, path)
	if s, known := f.Seconds(first); !known || s != 2 || f.Len() != mostTimes {
		t.Errorf("the newer time is %v, %v, of %d", s, known, f.Len())
	}
	if _, known := f.Seconds(second); known {
		t.Error("the oldest time is kept")
	}
	if err := f.Add(t.Context(), map[Key]float64{first: 1e7}); err == nil {
		t.Error("a time of months is kept")
	}
}

// Writers of one file lose none of each other's times.
func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	var all sync.WaitGroup
	for i := range 8 {
		f := mustOpen(t, path)
		all.Go(func() {
			if err := f.Add(t.Context(), map[Key]float64{{fmt.Sprint(i), "on"}: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f := mustOpen(t, path); len(f.seconds) != 8 {
		t.Errorf("%d of 8 times are in the file", len(f.seconds))
	}
}

// A writer that waits for another one ends with its context.
func TestWaitingEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	unlock, err := lock(t.Context(), path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := mustOpen(t, path).Add(ctx, nil); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// Devices have the same times if they and their neighbours are alike.
func TestOn(t *testing.T) {
	one, two := device.Spec{ID: "cpu:0", Kind: "cpu", Numerics: "AVX2", Threads: 1}, device.Spec{ID: "cpu:1", Kind: "cpu", Numerics: "AVX2", Threads: 2}
	if a, b := On([]device.Spec{one, two}, 0), On([]device.Spec{two, one}, 1); a != b || a != "cpu AVX2 1 of cpu AVX2 1+2" {
		t.Error(a, b)
	}
	if a, b := On([]device.Spec{one}, 0), On([]device.Spec{one, one}, 0); a == b {
		t.Error("company makes no difference: " + a)
	}
	other := device.Spec{ID: "gpu:0", Kind: "gpu", Threads: 1}
	all := []device.Spec{one, two, other}
	on := On(all, 0)
	if same, from := Between(all, 1, 0), Between(all, 2, 0); same != on || from != on+" from gpu" {
		t.Errorf("copies %q and %q, to %q", same, from, on)
	}
}

func TestDefaultPath(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	if p, err := DefaultPath(); err != nil || filepath.Base(filepath.Dir(p)) != "costs" {
		t.Error(p, err)
	}
	t.Setenv(Variable, "mine.json")
	if p, err := DefaultPath(); p != "mine.json" || err != nil {
		t.Error(p, err)
	}
}
