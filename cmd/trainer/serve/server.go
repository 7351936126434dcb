package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
)

// Server answers requests with a trained model. It is safe for concurrent use.
type Server struct {
	opt     OpenOptions
	models  *models
	counted *metrics
	mux     *http.ServeMux
	gate    *gate
	access  rules
	follow  *follower
}

// Open opens the devices, and copies the weights in. The caller closes the server.
func Open(ctx context.Context, o OpenOptions) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opt: o, counted: newMetrics(), mux: http.NewServeMux(), access: newRules(&o)}
	if s.models, err = openModels(ctx, o, s.counted); err != nil {
		return nil, err
	}
	standard(&s.opt.Limits.Memory, usualMemory()) // the weights are loaded
	m := s.models.newest
	all := s.opt
	all.Service.Texts *= len(m.service.Stats().Groups) // each copy of the weights generates as many
	s.gate = newGate(&all)
	d := &desk{s.opt.Limits, o.Config.Name, s.models, s.gate, costsOf(m.service, &s.opt.Limits), m.trained.CanGenerate() == nil}
	if err := d.costs.fits(s.gate, &d.limits); err != nil {
		return nil, errors.Join(err, s.models.close())
	}
	s.follow = newFollower(o, s.models)
	s.handle("POST /predict", d.predict)
	s.handle("POST /generate", d.generate)
	s.handle("POST /reload", s.reload)
	s.handle("GET /healthz", withoutPass(d.healthz))
	s.handle("GET /metrics", withoutPass(d.metrics))
	s.handle("GET /{$}", withoutPass(d.describe))
	for _, path := range []string{"/predict", "/generate", "/reload", "/healthz", "/metrics", "/{$}", "/"} { // with other methods, and all other paths
		s.handle(path, withoutPass(d.unknown))
	}
	return s, nil
}

// HTTP is an HTTP server of s at an address, with limits on headers, on slow clients, and on
// connections. Clients of it may close their side of a connection and wait for the answer.
func (s *Server) HTTP(address string) *http.Server {
	h := bounds.HTTP(s, s.gate.connection)
	h.Addr = address
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	return h
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

// Notes say how the weights in use are on the devices other than a user may expect: see [berth.Trained.Notes].
func (s *Server) Notes() []string { return s.models.notes() }

// Parts are the weights in use: those of the model, and of each adapter beside them.
func (s *Server) Parts() []berth.ServicePart { return s.models.parts() }

// Stats counts what has been computed with all weights so far.
func (s *Server) Stats() berth.ServiceStats {
	s.counted.mu.Lock()
	defer s.counted.mu.Unlock()
	return s.counted.stats()
}

// DevicesText says which devices answer at the same time; "" where there is one copy of the weights.
func (s *Server) DevicesText() string {
	list := s.models.copies()
	if len(list) < 2 {
		return ""
	}
	return copiesText(list)
}

// copiesText says where copies of the weights answer; "" for none.
func copiesText(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "one copy of the weights answers, on " + list[0]
	}
	return fmt.Sprintf("%d copies of the weights answer at the same time, on the devices %s", len(list), strings.Join(list, "; "))
}

// handler answers a request. What it takes is held by the pass.
type handler func(w *answering, r *http.Request, p *pass) error

// withoutPass is a handler of requests that take next to nothing.
func withoutPass(h func(http.ResponseWriter, *http.Request) error) handler {
	return func(w *answering, r *http.Request, _ *pass) error { return h(w, r) }
}

// handle answers requests of a pattern with h. Whatever h does, its request gets an answer
// and is counted.
func (s *Server) handle(pattern string, h handler) {
	path := pattern[strings.Index(pattern, "/"):]
	if path == "/" {
		path = "other"
	}
	path = strings.TrimSuffix(path, "{$}")
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		began, out := time.Now(), &answering{ResponseWriter: w, conn: conn, client: s.opt.Limits.Client, status: http.StatusOK}
		kind := s.answer(out, r, path, h)
		s.counted.count(path, out.status, kind, time.Since(began))
	})
}

// answer calls h, and words its error. kind is that of the problem; "" for none.
func (s *Server) answer(w *answering, r *http.Request, path string, h handler) (kind string) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		s.opt.Log(fmt.Sprintf("BUG: a request to %s failed: %v\n%s", path, cause, debug.Stack()))
		kind = kindInternal
		p := &problem{status: http.StatusInternalServerError, Kind: kindInternal, Text: "the server made a mistake, which its log has: please report it"}
		switch {
		case !w.begun:
			p.write(w)
		case w.stream:
			_ = (&events{w: w, begun: true}).send("error", p)
		}
	}()
	ctx, stop := w.life(r)
	defer stop()
	err := s.within(w, r.WithContext(ctx), h)
	var told *sentProblem
	switch {
	case err == nil:
		return ""
	case errors.As(err, &told):
		w.status = told.status
		return told.Kind
	}
	p := problemOf(ctx, err)
	if r.ContentLength != 0 && !w.whole && p.Kind != kindGone && r.Header.Get("Expect") == "" {
		s.refuse(w, r, p)
	} else {
		p.write(w)
	}
	w.status = p.status
	return p.Kind
}

// refuse writes a problem, and lets the client finish sending its body: most clients look for
// an answer only then, and would lose it where the connection is closed before.
func (s *Server) refuse(w *answering, r *http.Request, p *problem) {
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex() // or the server reads first, and closes what is long
	w.Header().Set("Connection", "close")
	p.write(w)
	err := c.Flush()
	for n := int64(0); n < s.opt.Limits.Body && err == nil; n += pieceBytes {
		if err = c.SetReadDeadline(time.Now().Add(s.opt.Limits.Client)); err == nil {
			_, err = io.CopyN(io.Discard, r.Body, pieceBytes)
		}
	}
}

// within calls h for a request that may be asked, unless too many are under way.
func (s *Server) within(w *answering, r *http.Request, h handler) error {
	if r.ContentLength != 0 { // whatever is not read of the body is waited for after the answer
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opt.Limits.Client))
	}
	if err := s.access.check(r); err != nil {
		return err
	}
	var p *pass
	if r.Method == http.MethodPost {
		p = s.gate.enter(r.RemoteAddr)
		defer p.leave()
		if refused := p.hold(use{requests: 1}); refused != nil {
			return refused
		}
	}
	s.counted.underWay.Add(1)
	defer s.counted.underWay.Add(-1)
	return h(w, r, p)
}

// reload answers POST /reload.
func (s *Server) reload(w *answering, r *http.Request, _ *pass) error {
	if err := s.access.mayReload(r); err != nil {
		return err
	}
	return s.follow.reload(w, r)
}
