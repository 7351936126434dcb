package ui

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/filecache"
)

// thousand is a folder of 1,000 runs. Their files are links to those of one run that was trained.
func thousand(b *testing.B) (folder string) {
	b.Helper()
	folder = copied(b, "r0")
	files, err := os.ReadDir(filepath.Join(folder, "r0"))
	if err != nil {
		b.Fatal(err)
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(folder, "r0", f.Name()), yesterday, yesterday); err != nil {
			b.Fatal(err)
		}
	}
	for i := 1; i < 1000; i++ {
		dir := filepath.Join(folder, fmt.Sprint("r", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for _, f := range files {
			if err := os.Link(filepath.Join(folder, "r0", f.Name()), filepath.Join(dir, f.Name())); err != nil {
				b.Fatal(err)
			}
		}
	}
	return folder
}

// BenchmarkTable measures the table of 1,000 runs: of a server that has just begun, and of one that has shown it before.
func BenchmarkTable(b *testing.B) {
	folder := thousand(b)
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			table := newBoard(b.Context(), folder, nil)
			if table.look(b.Context()); len(table.rows) != 1000 {
				b.Fatal(len(table.rows), "rows")
			}
		}
	})
	table := newBoard(b.Context(), folder, nil)
	table.look(b.Context())
	b.Run("later", func(b *testing.B) {
		for b.Loop() {
			table.look(b.Context())
			if _, err := json.Marshal(table.all()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCurves measures the panel of the loss of a run of a million steps: without an index, with one, and a part of it of a
// server that has shown it before.
func BenchmarkCurves(b *testing.B) {
	b.Setenv(filecache.Variable, b.TempDir())
	folder := copied(b, "r")
	var text strings.Builder
	for step := 1; step <= 1_000_000; step++ {
		fmt.Fprintf(&text, `{"step":%d,"epoch":%d,"loss":%v,"learning_rate":%v}`+"\n", step, step/5000, 2/math.Sqrt(float64(step))+0.1*math.Abs(math.Sin(float64(step))), 0.1/float64(step))
		if step%5000 == 0 {
			fmt.Fprintf(&text, `{"epoch":%d,"step":%d,"train_loss":0.5,"val_loss":0.6,"train_s":5,"time":%q}`+"\n", step/5000-1, step, time.Unix(int64(step/1000), 0).UTC().Format(time.RFC3339))
		}
	}
	appendTo(b, filepath.Join(folder, "r"), text.String())
	c := serve(b, Options{Folder: folder})
	path := "/api/curves?panel=loss&columns=1200&x=time&run=" + c.id(b, "r")
	panel := func(b *testing.B, c *client, path string) {
		status, body, _ := c.do(b, c.request(b, path))
		if status != http.StatusOK {
			b.Fatal(status, body)
		}
		b.ReportMetric(float64(len(body)), "bytes")
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			c.s.library.writes.close()
			c.s.library = newLibrary()
			c.s.library.index = nil
			panel(b, c, path)
		}
	})
	b.Run("index", func(b *testing.B) {
		c.s.library = newLibrary()
		panel(b, c, path)
		for b.Loop() {
			c.s.library.writes.close()
			c.s.library = newLibrary()
			panel(b, c, path)
		}
	})
	b.Run("zoom", func(b *testing.B) {
		panel(b, c, path)
		for b.Loop() {
			panel(b, c, path+"&from=100&to=900")
		}
	})
}
