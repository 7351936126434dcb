package curves

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

var loss = Name{Field: "loss"}

// stepLine and boundaryLine are lines of metrics.jsonl as a run writes them: 10 steps are an epoch, each takes a second.
func stepLine(step int) string {
	return fmt.Sprintf(`{"step":%d,"epoch":%d,"loss":%g,"learning_rate":0.1}`+"\n", step, (step-1)/10, 1/float64(step))
}

func boundaryLine(epoch int) string {
	return fmt.Sprintf(`{"epoch":%d,"step":%d,"train_loss":0.5,"val_auc":null,"train_s":10,"time":"2026-01-02T03:04:%02d.000Z"}`+"\n", epoch, 10*(epoch+1), 10*(epoch+1))
}

// steps are the lines of steps, with boundaries.
func steps(from, to int) (text string) {
	for s := from; s <= to; s++ {
		text += stepLine(s)
		if s%10 == 0 {
			text += boundaryLine(s/10 - 1)
		}
	}
	return text
}

func put(t *testing.T, dir, text string, flag int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, rundir.MetricsName), os.O_CREATE|os.O_WRONLY|flag, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, h *History) (x, y []float64) {
	t.Helper()
	if err := h.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, _ := h.Axis("step", 0)
	return h.Thin(loss, at, Span{}, 1000)
}

// A file that grows is read on, from within a line, too; one that is cut or replaced is read anew.
func TestReadOn(t *testing.T) {
	dir := t.TempDir()
	h := Open(dir)
	if x, _ := read(t, h); x != nil {
		t.Fatal("without a file:", x)
	}
	text := steps(1, 25)
	put(t, dir, text[:len(text)-20], os.O_APPEND)
	if x, _ := read(t, h); len(x) != 24 {
		t.Fatal("within a line:", x)
	}
	at, _ := h.Axis("step", 0)
	_, mark, _ := h.Since(Mark{}, at, 1)
	put(t, dir, text[len(text)-20:], os.O_APPEND)
	put(t, dir, steps(26, 27), os.O_APPEND)
	if x, y := read(t, h); len(x) != 27 || x[26] != 27 || y[26] != 1./27 {
		t.Fatal("grown:", x, y)
	}
	news, _, whole := h.Since(mark, at, 10)
	i := slices.IndexFunc(news, func(n News) bool { return n.Name == loss })
	if !whole || i < 0 || !slices.Equal(news[i].X, []float64{25, 26, 27}) {
		t.Errorf("news %v, %v", news, whole)
	}
	news, _, whole = h.Since(mark, at, 2)
	i = slices.IndexFunc(news, func(n News) bool { return n.Name == loss })
	if !whole || i < 0 || !slices.Equal(news[i].X, []float64{25, 27}) { // the largest and the least
		t.Errorf("two points of three: %v, %v", news, whole)
	}
	_, mark, _ = h.Since(mark, at, 1)
	put(t, dir, steps(1, 12), os.O_TRUNC) // it resumed
	if x, _ := read(t, h); len(x) != 12 {
		t.Fatal("cut:", x)
	}
	if _, _, whole := h.Since(mark, at, 100); whole {
		t.Error("what was cut is not said")
	}
	put(t, dir, strings.Replace(steps(1, 30), "0.1", "0.2", 1), os.O_TRUNC)
	if x, _ := read(t, h); len(x) != 30 || x[0] != 1 {
		t.Fatal("replaced by more:", x)
	}
	if err := os.Remove(filepath.Join(dir, rundir.MetricsName)); err != nil {
		t.Fatal(err)
	}
	if x, _ := read(t, h); x != nil {
		t.Fatal("deleted:", x)
	}
}

// Who follows a history that others read, too, gets every point once.
func TestSinceBesideReaders(t *testing.T) {
	const steps = 500
	dir := t.TempDir()
	put(t, dir, stepLine(1), 0)
	h := Open(dir)
	read(t, h)
	at, _ := h.Axis("step", 0)
	_, mark, whole := h.Since(Mark{}, at, steps)
	if whole {
		t.Error("nothing was seen, and nothing is to be loaded")
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for s := 2; s <= steps; s++ {
			put(t, dir, stepLine(s), os.O_APPEND)
			_ = h.Read(t.Context())
		}
	}()
	var got []float64
	for end := false; !end; {
		select {
		case <-written:
			end = true
		default:
		}
		var news []News
		if news, mark, whole = h.Since(mark, at, steps); !whole {
			t.Fatal("all is to be loaded anew")
		}
		for _, n := range news {
			if n.Name == loss {
				got = append(got, n.X...)
			}
		}
	}
	if len(got) != steps-1 || !slices.IsSorted(got) || got[0] != 2 || got[steps-2] != steps {
		t.Errorf("%d points of %d", len(got), steps-1)
	}
}

// Epochs and times are those of the lines, and undefined values stay gaps.
func TestAxes(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, steps(1, 9), os.O_APPEND)
	h := Open(dir)
	read(t, h)
	for unit, steps := range map[string]int{"epoch": 0, "time": 0, "nothing": 0} {
		if at, ok := h.Axis(unit, steps); ok || at.Unit != "step" {
			t.Errorf("%s is known before the first boundary", unit)
		}
	}
	if at, ok := h.Axis("epoch", 10); !ok || at.At(5) != 0.5 {
		t.Error("the length of an epoch that others know does not count")
	}
	put(t, dir, steps(10, 30), os.O_APPEND)
	read(t, h)
	for unit, want := range map[string]float64{"epoch": 1.5, "time": 15, "step": 15} {
		if at, ok := h.Axis(unit, 0); !ok || math.Abs(at.At(15)-want) > 1e-9 {
			t.Errorf("step 15 by %s is at %v, want %v", unit, at.At(15), want)
		}
	}
	if slices.Contains(h.Names(), Name{"val_auc", true}) {
		t.Error("a metric that is never defined has a curve")
	}
	put(t, dir, strings.Replace(boundaryLine(3), "null", "0.75", 1)+boundaryLine(4), os.O_APPEND)
	read(t, h)
	at, _ := h.Axis("step", 0)
	if x, y := h.Thin(Name{"val_auc", true}, at, Span{}, 10); len(x) != 2 || y[0] != 0.75 || !math.IsNaN(y[1]) {
		t.Errorf("a metric that is undefined once: %v, %v", x, y)
	}
}

// Whatever a file has, reading ends within bounds.
func TestHostileFiles(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"step":1,"epoch":0,"loss":1`)
	for i := range 3000 {
		fmt.Fprintf(&many, `,"f%d":1`, i)
	}
	many.WriteString("}\n")
	for name, c := range map[string]struct {
		text    string
		damaged int
		points  int
	}{
		"no JSON":             {"nothing\n\x00\x00\n<script>\n" + stepLine(1), 3, 2},
		"a long line":         {`{"step":1,"epoch":0,"loss":"` + strings.Repeat("x", 200_000) + "\"}\n" + stepLine(2), 1, 2},
		"a line without end":  {strings.Repeat("x", 300_000), 0, 0},
		"many fields":         {many.String(), 0, 64},
		"steps that fall":     {stepLine(5) + stepLine(3) + stepLine(9) + stepLine(1), 0, 2},
		"numbers beyond all":  {`{"step":1,"epoch":0,"loss":1e300}` + "\n" + `{"step":1e300,"epoch":0,"loss":1}` + "\n" + `{"step":-1,"epoch":0,"loss":1}` + "\n", 2, 1},
		"other kinds":         {`{"step":"1","epoch":0,"loss":1}` + "\n[]\nnull\n" + `{"step":2,"epoch":0,"loss":{"a":1}}` + "\n", 3, 0},
		"names that are HTML": {`{"step":1,"epoch":0,"loss":1,"<img src=x onerror=alert(1)>":2}` + "\n", 0, 2},
	} {
		dir := t.TempDir()
		put(t, dir, c.text, os.O_APPEND)
		h := Open(dir)
		if err := h.Read(t.Context()); err != nil || h.Damaged() != c.damaged || h.Points() != c.points {
			t.Errorf("%s: %v, %d damaged lines, %d points; want %d and %d", name, err, h.Damaged(), h.Points(), c.damaged, c.points)
		}
	}
}

// A history without end has an end of memory, and keeps the largest value.
func TestMostPoints(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	for s := 1; s <= 20_000; s++ {
		text.WriteString(stepLine(s))
	}
	put(t, dir, text.String(), os.O_APPEND)
	h := Open(dir)
	h.most = 1000
	if _, y := read(t, h); h.Points() > 1000 || slices.Max(y) != 1 {
		t.Errorf("%d points, the largest %v", h.Points(), slices.Max(y))
	}
}

// Links are not followed, and nothing waits for a writer.
func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, steps(1, 5), os.O_APPEND)
	path := filepath.Join(dir, rundir.MetricsName)
	for _, to := range []string{filepath.Join(outside, rundir.MetricsName), filepath.Join(outside, "nothing"), outside} {
		if err := os.Symlink(to, path); err != nil {
			t.Skip(err)
		}
		h := Open(dir)
		if err := h.Read(t.Context()); !errors.Is(err, rundir.ErrNotPlain) && !errors.Is(err, os.ErrNotExist) || h.Points() > 0 {
			t.Errorf("a link to %s: %v, %d points", to, err, h.Points())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A read that is stopped goes on where it was.
func TestReadStopped(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, steps(1, 40), os.O_APPEND)
	h := Open(dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Read(ended); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if x, _ := read(t, h); len(x) != 40 {
		t.Fatal(x)
	}
}
