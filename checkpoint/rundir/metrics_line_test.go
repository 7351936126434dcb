package rundir

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written are lines as runs write them.
var written = []string{
	`{"step":1,"epoch":0,"loss":2.302585092994046,"learning_rate":0.1}`,
	`{"step":1000000,"epoch":12,"loss":1e-7,"learning_rate":3.5e-05,"grad_norm":0}`,
	`{"epoch":0,"step":45,"train_loss":0.5,"val_loss":-2.5e+03,"learning_rate":0.1,"samples_per_s":1.5,"train_s":0.1,"val_s":0,"samples_seen":1440,"device_peak_bytes":123456789012,"time":"2026-01-02T03:04:05.678Z","val_auc":null}`,
}

// The lines that runs write are scanned, and need no second reading.
func TestScanLines(t *testing.T) {
	for _, line := range written {
		var l lines
		if _, ok := l.scan([]byte(line + "\n")); !ok {
			t.Errorf("not scanned: %s", line)
		}
	}
}

// A line that is scanned is read as encoding/json reads it.
func FuzzLine(f *testing.F) {
	for _, line := range append(written,
		`{"step":1,"epoch":0,"loss":01}`, `{"step":1,"epoch":0,"loss":1.}`, `{"step":1,"epoch":0,"loss":-0}`, `{"step":1,"epoch":0,"loss":1e999}`,
		`{"step":1,"step":2,"epoch":0}`, `{"step":-1,"step":2,"epoch":0}`, `{"step":1,"epoch":0,"a":1,"a":null}`, `{"step":1,"epoch":0,"time":null}`,
		`{"step":1.5,"epoch":0,"time":"x","time":"2026-01-02T03:04:05Z"}`, `{"step":1,"epoch":0,"\u0061":1}`, "{\"step\":1,\"epoch\":0,\"\xff\":1}",
		`{"step":1,"epoch":0,"loss":"1"}`, `{"step":1,"epoch":0,"loss":[[1,2]]}`, ` {"step": 1, "epoch": 0}`, `{"step":1,"epoch":0}}`, `{}`, `{"step":1,"epoch":0,}`,
		`{"step":9007199254740993,"epoch":0,"x":123456789012345678}`, `{"step":null,"epoch":0}`, `{"Step":1,"epoch":0,"step":2}`, `{"step":0x1,"epoch":0}`,
	) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var a, b lines
		got, scanned := a.scan(line)
		if !scanned {
			return
		}
		want, ok := b.decode(line)
		slices.SortFunc(got.Fields, func(x, y Field) int { return strings.Compare(x.Name, y.Name) })
		same := func(x, y Field) bool {
			return x.Name == y.Name && math.Float64bits(x.Value) == math.Float64bits(y.Value)
		}
		if !ok || got.Step != want.Step || got.Epoch != want.Epoch || got.Boundary != want.Boundary || !got.Time.Equal(want.Time) || !slices.EqualFunc(got.Fields, want.Fields, same) {
			t.Errorf("%q is scanned as %+v, and is %+v, %v", line, got, want, ok)
		}
	})
}

// The last boundary is found wherever it is: at the end, or before as many steps as are looked through.
func TestLastBoundaryFarBack(t *testing.T) {
	step := func(i int) string {
		return fmt.Sprintf(`{"step":%d,"epoch":1,"loss":0.25,"learning_rate":0.1}`+"\n", i)
	}
	for _, behind := range []int{0, 1, 50, 100, 1000, 2000, 15_000, 40_000} {
		var text strings.Builder
		text.WriteString(strings.Repeat("x", 3*longestLine) + "\n" + `{"epoch":0,"step":9,"train_loss":0.5}` + "\n")
		for i := range behind {
			text.WriteString(step(10 + i))
		}
		for end, tail := range []string{"", `{"epoch":1,"st`, `{"epoch":1,"step":99,"train_loss":` + strings.Repeat("1", longestLine) + "}\n"} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, MetricsName), []byte(text.String()+tail), 0o644); err != nil {
				t.Fatal(err)
			}
			r, ok := LastBoundary(dir)
			if want := int64(text.Len()+len(tail)) < 18*longestLine; ok != want || ok && (r.Step != 9 || r.Values["train_loss"] != 0.5 || !strings.HasPrefix(string(r.Text), `{"epoch":0`)) {
				t.Errorf("%d steps behind it, end %d: %+v, %v", behind, end, r, ok)
			}
		}
	}
}
