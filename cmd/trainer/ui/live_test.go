package ui

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// counter is an answer of which only the length is kept.
type counter struct {
	header http.Header
	bytes  int
}

func (c *counter) Header() http.Header         { return c.header }
func (c *counter) WriteHeader(int)             {}
func (c *counter) Write(b []byte) (int, error) { c.bytes += len(b); return len(b), nil }
func (c *counter) Flush()                      {}

// mostLive is how many bytes a second a page gets while 20 runs train.
const mostLive = 20_000

// While 20 runs take 20 steps and end an epoch each second, the page gets no more than mostLive, whether it shows the table, or
// compares as many runs as it may.
func TestTwentyRunsLive(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("digits-%02d", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	folder := copied(t, names...)
	c := serve(t, Options{Folder: folder})
	c.table(t)
	for _, watchedRuns := range []int{0, mostRuns} {
		r := c.request(t, "/api/events?since=0")
		w := &counter{header: http.Header{}}
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		out := newStream(w, r)
		var runs []*watched
		for id := range c.s.board.dirs {
			if len(runs) < watchedRuns {
				runs = append(runs, &watched{id: id, unit: "step"})
			}
		}
		for _, of := range runs {
			c.s.follow(r, out, of)
		}
		version := c.s.board.version
		for second := range 3 {
			step := 10_000*(watchedRuns+1) + 20*second
			for _, name := range names {
				text := ""
				for k := range 20 {
					text += fmt.Sprintf(`{"step":%d,"epoch":%d,"loss":%v,"learning_rate":%v}`+"\n", step+k, 9+second, 2*random.Float64(), 0.1/float64(step+k))
				}
				x := random.Float64()
				text += fmt.Sprintf(`{"epoch":%d,"step":%d,"train_loss":%v,"train_accuracy":%v,"val_loss":%v,"val_accuracy":%v,"learning_rate":%v,"samples_per_s":%v,"train_s":%.6f,"val_s":%.6f,"samples_seen":%d,"device_peak_bytes":1234567,"time":%q}`+"\n",
					9+second, step+19, x, 1-x, 1.1*x, 1-1.1*x, 0.1/float64(step+19), 640*(1-x), 1-x, x, 32*(step+19), time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
				appendTo(t, filepath.Join(folder, name), text)
			}
			c.s.board.at = time.Time{}
			c.s.board.look(t.Context())
			w.bytes = 0
			change, _, known := c.s.board.since(c.s.board.instance, version)
			if version = change.Version; !known || len(change.Rows) != len(names) {
				t.Fatalf("%d rows, %v", len(change.Rows), known)
			}
			out.send("rows", change)
			rows := w.bytes
			for _, of := range runs {
				c.s.follow(r, out, of)
			}
			t.Logf("%d runs watched, second %d: %d bytes, of which %d are rows", watchedRuns, second, w.bytes, rows)
			if w.bytes > mostLive {
				t.Errorf("%d runs watched, second %d: %d bytes, of which %d are rows", watchedRuns, second, w.bytes, rows)
			}
		}
	}
}
