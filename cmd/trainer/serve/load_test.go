package serve_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/internal/testall"
)

// mistakes are bodies that no model answers.
var mistakes = []string{``, `{`, `{}`, `[]`, `null`, `{"inputs": 3}`, `{"inputs": [[1]]}`, `{"inputs": [[1, 2, 3]]}`, `{"inputs": [["a", 2]]}`, `{"inputs": [{"height": 1}]}`, `{"inputs": [` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `]}`}

// Random requests from many clients, valid and invalid, are each answered while newer
// checkpoints take the place of older ones. Memory does not grow.
func TestManyRequestsWhileWeightsChange(t *testing.T) {
	x := table(t)
	_, c := open(t, x, serve.OpenOptions{Follow: -1, Log: func(string) {}})
	c.Transport = &http.Transport{MaxIdleConnsPerHost: 16}
	defer c.CloseIdleConnections()
	const clients = 16
	each := testall.Or(12, 10000/2/clients)
	var steps [clients][]int
	var group sync.WaitGroup
	round := func(k int) {
		rnd := rand.New(rand.NewPCG(uint64(k), 5))
		for range each {
			body, want := mistakes[rnd.IntN(len(mistakes))], http.StatusBadRequest
			if rnd.IntN(3) > 0 {
				var rows []string
				for range 1 + rnd.IntN(5) {
					rows = append(rows, fmt.Sprintf("[%d, %v]", rnd.IntN(200), rnd.Float32()))
				}
				body, want = `{"inputs": [`+strings.Join(rows, ", ")+`]}`, http.StatusOK
			}
			code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", body)
			if code != want {
				t.Errorf("client %d: %.80s: %d %s", k, body, code, text)
			}
			var got predictions
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Errorf("client %d: %s: %v", k, text, err)
			}
			if code == http.StatusOK {
				steps[k] = append(steps[k], got.Weights.Step)
			}
		}
	}
	for k := range clients {
		group.Go(func() { round(k) })
	}
	for range testall.Or(1, 5) {
		x.goOn(t)
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", ""); code != http.StatusOK {
			t.Errorf("reload: %d %s", code, text)
		}
	}
	group.Wait()
	before := heap()
	for k := range clients { // each client sees newer weights alone
		if !slices.IsSorted(steps[k]) {
			t.Errorf("client %d had answers of steps %v", k, steps[k])
		}
		group.Go(func() { round(k) })
	}
	group.Wait()
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes in %d requests", grown, clients*each)
	}
}

// heap is the bytes in use, of which idle connections keep some.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A slow client does not hold up others, and its request ends.
func TestClientsThatLeave(t *testing.T) {
	_, c := open(t, book(t), serve.OpenOptions{Log: func(string) {}})
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/generate", strings.NewReader(`{"prompt": "ten", "tokens": 4000, "slide": true, "stream": true}`))
			if err != nil {
				t.Error(err)
				return
			}
			a, err := c.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := a.Body.Read(make([]byte, 1+k)); err != nil {
				t.Error(err)
			}
			a.Body.Close()
		})
	}
	group.Wait()
	c.until(t, "texts_under_way 0", "queue_texts 0")
	var p predictions
	c.post(t, "/predict", `{"inputs": ["ten gree"]}`, &p)
}

// Whatever a body is, its request gets an answer or an error in JSON, and never a mistake
// of the server's.
func FuzzBodies(f *testing.F) {
	onTable, _ := open(f, table(f), serve.OpenOptions{Follow: -1})
	onText, _ := open(f, book(f), serve.OpenOptions{Follow: -1, Limits: serve.Limits{Tokens: 20, Time: 5 * time.Second}})
	for _, body := range append(mistakes, `{"inputs": [[1, 2], {"height": 1, "width": -2e3}]}`, `{"inputs": ["ten gree", [0, 1, 2, 3, 4, 5, 6, 7]], "timeout_ms": 50}`,
		`{"prompt": "ten", "tokens": 3, "temperature": 0.5, "top_k": 2, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 3, "stop": ["n"], "slide": true}`, `{"prompt": "t", "tokens": 5, "stream": true}`,
		`{"inputs": ["\ud800\u0000"]}`, `{"inputs": [{"\"": 1}]}`, `{"inputs": [[-, +1]]}`, `{"inputs": [[1e999, -0]]}`, `{"inputs": [[1 , 2 ] ,[ 3,4]]}`) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range []*serve.Server{onTable, onText} {
			for _, path := range []string{"/predict", "/generate"} {
				w, began := httptest.NewRecorder(), time.Now()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body))))
				streamed := strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
				if w.Code >= 500 && w.Code != http.StatusGatewayTimeout || !streamed && !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s %q: it took %v", path, body, took)
				}
			}
		}
	})
}
