package curves

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/filecache"
)

// timedBoundary is boundaryLine of any epoch, each of which takes ten seconds.
func timedBoundary(epoch int) string {
	return fmt.Sprintf(`{"epoch":%d,"step":%d,"train_loss":0.5,"val_auc":null,"train_s":10,"time":%q}`+"\n", epoch, 10*(epoch+1), time.Unix(int64(10*epoch), 0).UTC().Format(time.RFC3339))
}

// long is a metrics.jsonl of more than leastIndexed bytes, with a boundary after every ten steps but the last thousand.
func long() []byte {
	var text strings.Builder
	text.WriteString("damaged\n" + strings.Replace(stepLine(1), "}", `,"<b>":1}`, 1))
	for s := 2; text.Len() < leastIndexed+100_000; s++ {
		text.WriteString(stepLine(s))
		if s%10 == 0 && text.Len() < leastIndexed {
			text.WriteString(timedBoundary(s/10 - 1))
		}
	}
	text.WriteString(strings.Replace(boundaryLine(1e6), "null", "0.75", 1))
	return []byte(text.String())
}

// sameAsRead fails unless h is as a history that read all of the file.
func sameAsRead(t *testing.T, what string, dir string, h *History) {
	t.Helper()
	want := Open(dir)
	if err := want.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.Names(), want.Names()) || h.Damaged() != want.Damaged() || h.Points() != want.Points() {
		t.Errorf("%s: curves %v, %d damaged, %d points; want %v, %d, %d", what, h.Names(), h.Damaged(), h.Points(), want.Names(), want.Damaged(), want.Points())
	}
	for _, unit := range Axes {
		a, knownA := h.Axis(unit, 0)
		b, knownB := want.Axis(unit, 0)
		if a.version != b.version || knownA != knownB {
			t.Errorf("%s: axis %s, want %s", what, a.version, b.version)
		}
		for _, n := range want.Names() {
			x, y := h.Thin(n, a, Span{}, 1<<20)
			wantX, wantY := want.Thin(n, b, Span{}, 1<<20)
			if !slices.EqualFunc(x, wantX, same) || !slices.EqualFunc(y, wantY, same) {
				t.Errorf("%s: %v by %s differs", what, n, unit)
			}
		}
	}
}

// A history that begins with an index is as one that reads all, and reads the rest alone.
func TestIndex(t *testing.T) {
	dir, folder := t.TempDir(), filecache.Folder{Dir: filepath.Join(t.TempDir(), "c"), Of: filecache.Curves, Most: filecache.Curves.Most}
	text := long()
	put(t, dir, string(text[:len(text)-30]), os.O_APPEND)
	open := func() *History {
		t.Helper()
		h := Open(dir).Indexed(folder)
		if err := h.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open()
	if h.indexed > 0 || !h.IndexDue() {
		t.Fatalf("an index of %d bytes before there was one, due: %v", h.indexed, h.IndexDue())
	}
	if err := h.WriteIndex(); err != nil || h.IndexDue() {
		t.Fatalf("%v, due: %v", err, h.IndexDue())
	}
	put(t, dir, string(text[len(text)-30:])+stepLine(1e6+1), os.O_APPEND)
	for what, h := range map[string]*History{"with an index": open(), "gone on": h} {
		if err := h.Read(t.Context()); err != nil || h.indexed < leastIndexed || h.IndexDue() {
			t.Errorf("%s: %v, index of %d bytes, due: %v", what, err, h.indexed, h.IndexDue())
		}
		sameAsRead(t, what, dir, h)
	}
	if files, err := filepath.Glob(filepath.Join(folder.Dir, "*.curves")); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}

	// An index of another file is none, wherever the two differ: what a run has that resumed, or another one.
	lastTime := bytes.LastIndex(text[:len(text)-300], []byte(`Z"}`)) - 1
	for what, change := range map[string]func(b []byte) []byte{
		"cut":                    func(b []byte) []byte { return b[:leastIndexed] },
		"cut to nothing":         func(b []byte) []byte { return b[:0] },
		"another beginning":      func(b []byte) []byte { b[20] ^= 1; return b },
		"another end":            func(b []byte) []byte { return append(b[:len(b)-600], stepLine(1e6)...) },
		"another last boundary":  func(b []byte) []byte { b[lastTime] ^= 1; return b[:len(b)-300] },
		"much more, and another": func(b []byte) []byte { return slices.Concat([]byte(stepLine(1)), b, b) },
	} {
		put(t, dir, string(change(bytes.Clone(text))), os.O_TRUNC)
		if what == "another last boundary" { // the last one is that far from the end
			put(t, dir, string(text), os.O_TRUNC)
			h := Open(dir).Indexed(folder)
			put(t, dir, string(text[:len(text)-300]), os.O_TRUNC)
			if err := h.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := h.WriteIndex(); err != nil {
				t.Fatal(err)
			}
			put(t, dir, string(change(bytes.Clone(text))), os.O_TRUNC)
		}
		h := open()
		if h.indexed > 0 {
			t.Errorf("%s: the index is used", what)
		}
		sameAsRead(t, what, dir, h)
		h.Read(t.Context())
	}
}

// A damaged index, one of another program and a folder that cannot be used count as none.
func TestIndexDamaged(t *testing.T) {
	dir, folder := t.TempDir(), filecache.Folder{Dir: t.TempDir(), Of: filecache.Curves, Most: filecache.Curves.Most}
	put(t, dir, string(long()), os.O_APPEND)
	h := Open(dir).Indexed(folder)
	if err := h.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.WriteIndex(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder.Dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var contents bytes.Buffer
	text, numbers, err := h.lend()
	if err = errors.Join(err, encode(&contents, text, numbers)); err != nil {
		t.Fatal(err)
	}
	index := func(change func(b []byte) []byte) func() error {
		return func() error {
			return folder.Put(h.indexKey(), func(w io.Writer) error { _, err := w.Write(change(bytes.Clone(contents.Bytes()))); return err })
		}
	}
	for what, damage := range map[string]func() error{
		"a byte":          func() error { b := bytes.Clone(whole); b[len(b)/2] ^= 1; return os.WriteFile(files[0], b, 0o600) },
		"cut":             func() error { return os.WriteFile(files[0], whole[:len(whole)/2], 0o600) },
		"empty":           func() error { return os.WriteFile(files[0], nil, 0o600) },
		"nothing whole":   index(func(b []byte) []byte { return nil }),
		"no head":         index(func(b []byte) []byte { return b[:4] }),
		"a head too long": index(func(b []byte) []byte { b[3] = 255; return b }),
		"numbers lacking": index(func(b []byte) []byte { return b[:len(b)-8] }),
		"numbers more":    index(func(b []byte) []byte { return append(b, make([]byte, 16)...) }),
		"steps that fall": index(func(b []byte) []byte { clear(b[len(b)-16*len(h.clock.at):]); return b }),
		"another path":    index(func(b []byte) []byte { return bytes.Replace(b, []byte(rundir.MetricsName), []byte("metrics.jsonk"), 1) }),
		"many points":     index(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"points":`), []byte(`"points":9`)) }),
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		h := Open(dir).Indexed(folder)
		if err := h.Read(t.Context()); err != nil || h.indexed > 0 {
			t.Errorf("%s: %v, the index counts: %v", what, err, h.indexed > 0)
		}
		sameAsRead(t, what, dir, h)
	}
	h = Open(dir).Indexed(filecache.Folder{Dir: filepath.Join(files[0], "below a file"), Of: filecache.Curves})
	if err := h.Read(t.Context()); err != nil || !h.IndexDue() {
		t.Errorf("without a folder: %v", err)
	}
	if err := h.WriteIndex(); err == nil {
		t.Error("an index is written below a file")
	}
	sameAsRead(t, "without a folder", dir, h)
}

// What an index is written of stays, whatever the history takes meanwhile.
func TestIndexWhileItChanges(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, steps(1, 30), os.O_APPEND)
	h := Open(dir)
	read(t, h)
	text, numbers, err := h.lend()
	var before, after bytes.Buffer
	if err = errors.Join(err, encode(&before, text, numbers)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, stepLine(31)+stepLine(7)+boundaryLine(0)+stepLine(9)+stepLine(32), os.O_APPEND) // as of a run that takes steps again
	read(t, h)
	for range 3 {
		h.shrink()
	}
	if err := encode(&after, text, numbers); err != nil || !bytes.Equal(before.Bytes(), after.Bytes()) {
		t.Errorf("the index has changed: %v", err)
	}
}
