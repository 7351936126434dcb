package ui

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
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

// live are runs that train.
type live struct {
	folder string
	names  []string
	random *rand.Rand
	second int
	step   int
	c      *client
}

// training are so many runs that train, and the server of their folder.
func training(t testing.TB, runs int) *live {
	t.Helper()
	l := &live{random: rand.New(rand.NewPCG(1, 2)), step: 10_000}
	for i := range runs {
		l.names = append(l.names, fmt.Sprintf("digits-%02d", i))
	}
	l.folder = copied(t, l.names...)
	l.c = serve(t, Options{Folder: l.folder})
	l.c.table(t)
	return l
}

// train has each run take so many steps and end an epoch, which takes a second, and the server look.
func (l *live) train(t testing.TB, steps int) {
	t.Helper()
	l.second++
	step, epoch := l.step, 9+l.second
	l.step += steps
	for _, name := range l.names {
		var text strings.Builder
		for k := range steps {
			fmt.Fprintf(&text, `{"step":%d,"epoch":%d,"loss":%v,"learning_rate":%v}`+"\n", step+k, epoch, 2*l.random.Float64(), 0.1/float64(step+k))
		}
		x := l.random.Float64()
		fmt.Fprintf(&text, `{"epoch":%d,"step":%d,"train_loss":%v,"train_accuracy":%v,"val_loss":%v,"val_accuracy":%v,"learning_rate":%v,"samples_per_s":%v,"train_s":%.6f,"val_s":%.6f,"samples_seen":%d,"device_peak_bytes":1234567,"time":%q}`+"\n",
			epoch, step+steps-1, x, 1-x, 1.1*x, 1-1.1*x, 0.1/float64(step+steps-1), 640*(1-x), 1-x, x, 32*(step+steps-1), time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
		appendTo(t, filepath.Join(l.folder, name), text.String())
	}
	l.c.s.board.pulse.looking <- struct{}{}
	l.c.s.board.look(t.Context())
	l.c.s.board.pulse.looking.Give()
}

// page is a stream of a page that compares runs. What it gets is counted.
type page struct {
	r       *http.Request
	w       *counter
	out     *stream
	runs    []*watched
	version int64
}

// page opens a page that compares so many runs.
func (l *live) page(t testing.TB, runs int) *page {
	t.Helper()
	p := &page{r: l.c.request(t, "/api/events?since=0"), w: &counter{header: http.Header{}}, version: l.c.s.board.version}
	p.r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	p.out = newStream(p.w, p.r)
	for id := range l.c.s.board.dirs {
		if len(p.runs) < runs {
			p.runs = append(p.runs, &watched{id: id, unit: "step"})
		}
	}
	return p
}

// news sends a page what is new, and counts its bytes and those of rows.
func (l *live) news(t testing.TB, p *page) (bytes, rows int) {
	t.Helper()
	p.w.bytes = 0
	c, _, known := l.c.s.board.since(l.c.s.board.instance, p.version)
	if p.version = c.Version; !known || len(c.Rows) != len(l.names) {
		t.Fatalf("%d rows, %v", len(c.Rows), known)
	}
	p.out.send("rows", c)
	rows = p.w.bytes
	for _, of := range p.runs {
		l.c.s.follow(p.r, p.out, of, mostNews/len(p.runs))
	}
	return p.w.bytes, rows
}

// mostLive is how many bytes a second a page gets while 20 runs train.
const mostLive = 20_000

// While 20 runs take steps and end an epoch each second, the page gets no more than mostLive, whether it shows the table or
// compares as many runs as it may, and however many the steps are.
func TestTwentyRunsLive(t *testing.T) {
	l := training(t, 20)
	for _, x := range []struct{ watched, steps int }{{0, 20}, {mostRuns, 20}, {mostRuns, 500}} {
		p := l.page(t, x.watched)
		for second := range 3 {
			l.train(t, x.steps)
			bytes, rows := l.news(t, p)
			t.Logf("%+v, second %d: %d bytes, of which %d are rows", x, second, bytes, rows)
			if bytes > mostLive || rows == 0 || second > 0 && x.watched > 0 && bytes == rows {
				t.Errorf("%+v, second %d: %d bytes, of which %d are rows", x, second, bytes, rows)
			}
		}
	}
}

// BenchmarkLive measures the processor time that a second takes in which runs train, and two pages compare them, 16 at most.
func BenchmarkLive(b *testing.B) {
	for _, runs := range []int{1, 20} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) {
			l := training(b, runs)
			one, other := l.page(b, mostRuns), l.page(b, mostRuns)
			for b.Loop() {
				l.train(b, 20)
				l.news(b, one)
				l.news(b, other)
			}
		})
	}
}

// mostPanel is how many bytes a panel of a run has, before they are packed.
const mostPanel = 64 << 10

// However long the numbers are, and however many a panel has, it gets no larger than mostPanel.
func TestPanelBytes(t *testing.T) {
	folder := copied(t, "a")
	random := rand.New(rand.NewPCG(1, 2))
	long := func() float64 { return -random.Float64() * 1e-100 }
	var text strings.Builder
	for step := 1_000_000; step < 1_005_000; step++ {
		fmt.Fprintf(&text, `{"step":%d,"epoch":9,"loss":%v}`+"\n", step, long())
		fmt.Fprintf(&text, `{"epoch":9,"step":%d,"train_loss":%v,"val_loss":%v,"train_s":0.1,"time":%q}`+"\n", step, long(), long(), time.UnixMilli(1e12+int64(step)*7919).UTC().Format(time.RFC3339Nano))
	}
	if err := os.WriteFile(filepath.Join(folder, "a", rundir.MetricsName), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	c := serve(t, Options{Folder: folder})
	path := "/api/curves?panel=loss&columns=2000&run=" + c.id(t, "a")
	for _, unit := range []string{"step", "epoch", "time"} {
		for _, span := range []string{"", "&from=20000&to=1e9"} {
			status, body, _ := c.do(t, c.request(t, path+"&x="+unit+span))
			t.Logf("by %s%s: %d bytes", unit, span, len(body))
			if status != http.StatusOK || len(body) > mostPanel || span == "" && len(body) < mostPanel/2 {
				t.Errorf("by %s%s: %d, %d bytes: %.500s", unit, span, status, len(body), body)
			}
		}
	}
}
