package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/memdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(memdir.Main(m)) }

// trained trains a run of digits for some steps in a folder, and goes on with what is there.
func trained(t testing.TB, dir string, steps int, set ...string) {
	t.Helper()
	c, err := configs.Load("digits", configs.Overlay{Set: append([]string{"devices.use=cpu", "devices.threads=1", "train.epochs=3"}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: steps})
	if errors.Is(err, berth.ErrStopped) {
		err = nil
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}

// once is a run that many tests look at and none changes.
var once = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "ui")
	if err != nil {
		panic(err)
	}
	return dir
})

// copied is a folder of runs with a copy of a trained run by each name.
func copied(t testing.TB, names ...string) string {
	t.Helper()
	made.Do(func() { trained(t, filepath.Join(once(), "r"), 0) })
	folder := t.TempDir()
	for _, name := range names {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join(once(), "r"))); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var made sync.Once

// client asks a server of a test.
type client struct {
	s   *Server
	url string
	c   *http.Client
}

// serve serves a folder until the test ends.
func serve(t testing.TB, o Options) *client {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &client{s, "http://" + l.Addr().String(), &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// request is one as the page sends it.
func (c *client) request(t testing.TB, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.s.Token())
	return r
}

// do sends a request, and gives the status and the body of its answer.
func (c *client) do(t testing.TB, r *http.Request) (status int, body string, header http.Header) {
	t.Helper()
	a, err := c.c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text), a.Header
}

// long sends a request that the server does not read to its end. It closes the connection soon behind the answer, which a client
// that is held up loses then: so it asks again.
func (c *client) long(t testing.TB, r *http.Request) (status int) {
	t.Helper()
	until(t, func() bool {
		a, err := c.c.Do(r)
		if err == nil {
			status = a.StatusCode
			a.Body.Close()
		}
		return err == nil
	})
	return status
}

// get asks for data that must be there.
func (c *client) get(t testing.TB, path string, v any) {
	t.Helper()
	status, body, _ := c.do(t, c.request(t, path))
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%s: %v: %s", path, err, body)
	}
}

// tableOf is what the page has of the table.
type tableOf struct {
	Folder   string
	Instance string
	Version  int64
	Rows     []rowOf
	Gone     []string
}

type rowOf struct {
	ID  string
	Run *struct {
		Run, State, Error string
		Step              int
	}
	Job *struct {
		ID    int
		State string
	}
}

// table is the table, and id that of the run in a folder of a name.
func (c *client) table(t testing.TB) (x tableOf) {
	t.Helper()
	c.get(t, "/api/table", &x)
	return x
}

func (c *client) id(t testing.TB, name string) string {
	t.Helper()
	for _, r := range c.table(t).Rows {
		if r.Run != nil && filepath.Base(r.Run.Run) == name {
			return r.ID
		}
	}
	t.Fatalf("there is no run %s", name)
	return ""
}

// streamOf is an open stream.
type streamOf struct {
	t    testing.TB
	body io.ReadCloser
	r    *bufio.Reader
}

func (c *client) stream(t testing.TB, query string) *streamOf {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	a, err := c.c.Do(c.request(t, "/api/events?"+query).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		t.Fatalf("the stream: %d %s", a.StatusCode, text)
	}
	s := &streamOf{t, a.Body, bufio.NewReader(a.Body)}
	t.Cleanup(s.cut)
	return s
}

// cut closes the stream.
func (s *streamOf) cut() { s.body.Close() }

// next is the next event.
func (s *streamOf) next(v any) (name string) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(rest)
		}
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			if v != nil {
				if err := json.Unmarshal([]byte(rest), v); err != nil {
					s.t.Fatal(err)
				}
			}
			return name
		}
	}
}
