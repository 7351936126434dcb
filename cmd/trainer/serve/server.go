package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/berth-ml/berth"
)

// Server answers requests with a trained model. It is safe for concurrent use.
type Server struct {
	opt     OpenOptions
	models  *models
	counted *metrics
	mux     *http.ServeMux
	slots   chan struct{} // has an element for each request under way
	follow  *follower
	desk    *desk
}

// Open opens the devices, and copies the weights in. The caller closes the server.
func Open(ctx context.Context, o OpenOptions) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opt: o, counted: newMetrics(), mux: http.NewServeMux(), slots: make(chan struct{}, o.Limits.Requests)}
	if s.models, err = openModels(ctx, o, s.counted); err != nil {
		return nil, err
	}
	if err := o.Limits.fits(s.models.newest.service.AnswerBytes()); err != nil {
		return nil, errors.Join(err, s.models.close())
	}
	d := &desk{o.Limits, o.Config.Name, s.models, &budget{most: o.Limits.Answers}}
	s.follow = newFollower(o, s.models)
	s.handle("POST /predict", d.predict)
	s.handle("POST /generate", d.generate)
	s.handle("POST /reload", func(w http.ResponseWriter, r *http.Request) error { return s.follow.reload(d, w, r) })
	s.handle("GET /healthz", d.healthz)
	s.handle("GET /metrics", d.metrics)
	s.handle("GET /{$}", d.describe)
	s.handle("/", unknown)
	s.desk = d
	return s, nil
}

// HTTP is an HTTP server of s at an address, with limits on headers and on slow clients.
func (s *Server) HTTP(address string) *http.Server {
	return &http.Server{
		Addr: address, Handler: s, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), // of connections that clients break off
	}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Drain makes GET /healthz say that the server ends, so that no balancer sends more. Requests
// are answered until Close.
func (s *Server) Drain() { s.models.ending.Store(true) }

// Close waits for the requests under way, and frees the devices. Later requests are refused.
func (s *Server) Close() error {
	s.Drain()
	s.models.die()
	s.follow.close()
	return s.models.close()
}

// Used says which weights are in use; the zero value while none are.
func (s *Server) Used() berth.Used { return s.models.used() }

// Stats counts what has been computed with all weights so far.
func (s *Server) Stats() berth.ServiceStats {
	s.counted.mu.Lock()
	defer s.counted.mu.Unlock()
	return s.counted.stats()
}

// handle answers requests of a pattern with h. Whatever h does, its request gets an answer
// and is counted.
func (s *Server) handle(pattern string, h func(http.ResponseWriter, *http.Request) error) {
	_, path, found := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
	if !found {
		path = "other"
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		began, out := time.Now(), &watched{ResponseWriter: w, status: http.StatusOK}
		kind := s.answer(out, r, path, h)
		s.counted.count(path, out.status, kind, time.Since(began))
	})
}

// answer calls h, and words its error. kind is that of the problem; "" for none.
func (s *Server) answer(w *watched, r *http.Request, path string, h func(http.ResponseWriter, *http.Request) error) (kind string) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		s.opt.Log(fmt.Sprintf("BUG: a request to %s failed: %v\n%s", path, cause, debug.Stack()))
		kind = kindInternal
		if !w.begun {
			(&problem{status: http.StatusInternalServerError, Kind: kindInternal, Text: "the server made a mistake, which its log has: please report it"}).write(w)
		}
	}()
	err := s.within(w, r, h)
	var told *sentProblem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &told):
		w.status = told.status
		return told.Kind
	}
	p := problemOf(r.Context(), err)
	s.desk.allowWriting(w)
	p.write(w)
	w.status = p.status
	return p.Kind
}

// within calls h unless too many requests are under way.
func (s *Server) within(w *watched, r *http.Request, h func(http.ResponseWriter, *http.Request) error) error {
	if r.Method == http.MethodPost {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			return &problem{status: http.StatusServiceUnavailable, retry: 1, Kind: kindBusy, Text: "too many requests are under way: try again later"}
		}
	}
	s.counted.underWay.Add(1)
	defer s.counted.underWay.Add(-1)
	return h(w, r)
}

// watched notes the status of an answer.
type watched struct {
	http.ResponseWriter
	status int
	begun  bool
}

// WriteHeader notes the status.
func (w *watched) WriteHeader(status int) {
	w.status, w.begun = status, true
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (w *watched) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
