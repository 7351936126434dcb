package ui

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/access"
	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/jobs/socket"
)

// Options describe a server.
type Options struct {
	Folder string                                                    // that has the run folders; one that is not there yet has none
	Host   string                                                    // the name that it listens at; "" if that is an address
	Jobs   func(context.Context) []queued.Record                     // all jobs of the queue, nil while they are not known; a nil function: there are none
	Memory func(context.Context) (berth.Memory, error)               // who has the memory of devices; nil: it is not known. An error is shown
	Plan   func(ctx context.Context, config []byte) (Picture, error) // draws the plan of a config, in bounds of its own; nil: none is drawn
	Config func(ctx context.Context, job int) (string, error)        // the config of a job; nil: none is known
	// Trace asks the training in a run folder for its next step; job is the number of the job that trains it, or 0. Its
	// errors are those of berth.Run.TraceStep. Nil: no training can be asked.
	Trace func(ctx context.Context, dir string, job int) (*berth.StepTrace, error)
	// Step is how many steps the training in a run folder has begun, and how many it has in all; ok is false where another
	// process trains it. Nil: this one trains none.
	Step func(dir string) (at, of int, ok bool)
	Log  func(text string) // takes a line for a mistake of the server, from any goroutine; nil: none
}

// Server answers the page's requests. It is safe for concurrent use.
type Server struct {
	token    string
	access   rules
	board    *board
	library  *library
	memory   *memory
	pictures *pictures
	config   func(ctx context.Context, job int) (string, error)
	sweeps   sweepConfigs
	log      func(string)
	handlers map[string]handler
	requests bounds.Places
	streams  bounds.Places
	reads    bounds.Places
	reading  tasks // holders of reads
	trace    func(ctx context.Context, dir string, job int) (*berth.StepTrace, error)
	tracing  bounds.Places
	life     context.Context // of the server
	end      context.CancelFunc
}

// handler answers a request for data with a value.
type handler func(ctx context.Context, r *http.Request) (any, error)

// New is a server with a new token. The caller closes it.
func New(o Options) (*Server, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	s := &Server{token: base64.RawURLEncoding.EncodeToString(random), log: o.Log, requests: make(bounds.Places, mostRequests), streams: make(bounds.Places, mostStreams), reads: make(bounds.Places, mostReads), tracing: make(bounds.Places, 1), trace: o.Trace, library: newLibrary(), pictures: newPictures(o.Plan), config: o.Config}
	s.access = rules{access.Host(o.Host), access.NewToken(s.token)}
	if s.log == nil {
		s.log = func(string) {}
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.board = newBoard(s.life, o.Folder, o.Jobs)
	if o.Step != nil {
		s.board.step = o.Step
	}
	s.memory = newMemory(s.life, o.Memory)
	s.board.pulse.log, s.memory.pulse.log = s.log, s.log
	s.handlers = map[string]handler{"/api/table": s.table, "/api/run": s.run, "/api/curves": s.curves, "/api/compare": s.compare, "/api/memory": s.memoryPage, "/api/step": s.step, "/api/plan": s.plan}
	return s, nil
}

// Token is what a request for data has as Authorization: Bearer TOKEN, 128 bits.
func (s *Server) Token() string { return s.token }

// Close ends all streams, and waits for what is read, but not for folders that do not answer.
func (s *Server) Close() {
	s.end()
	s.board.pulse.wait()
	s.memory.pulse.wait()
	s.reading.close()
	s.board.visits.going.close()
	s.library.writes.close()
}

// HTTP is an HTTP server of s, with bounds on headers, slow clients and connections.
func (s *Server) HTTP() *http.Server {
	h := bounds.HTTP(s, make(bounds.Places, mostConnections).Connection)
	h.BaseContext = func(net.Listener) context.Context { return s.life }
	return h
}

// policy lets the page load what is in the binary, and ask this server alone. Texts never become HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		h.Set(name, value)
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.log(fmt.Sprintf("BUG: a request to %s failed: %v\n%s", short(r.URL.Path), cause, debug.Stack()))
			write(w, refused(http.StatusInternalServerError, "the server made a mistake, which it has printed: please report it"))
		}
	}()
	if p := s.check(w, r); p != nil {
		write(w, p)
		return
	}
	if r.URL.Path == "/api/events" {
		s.events(w, r)
		return
	}
	if !s.requests.Take() {
		write(w, refused(http.StatusServiceUnavailable, "too many requests are under way: try again later"))
		return
	}
	defer s.requests.Give()
	allow(w)
	if f, ok := files()[r.URL.Path]; ok {
		f.serve(w, r)
		return
	}
	if r.URL.Path == metricsPath {
		s.metrics(w, r)
		return
	}
	handle := s.handlers[r.URL.Path]
	if handle == nil {
		write(w, refused(http.StatusNotFound, "there is no %s", short(r.URL.Path)))
		return
	}
	limit := answerTime
	if r.URL.Path == "/api/step" {
		limit = stepTime
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	v, err := apart(ctx, s, r.URL.Query()["run"], func() (any, error) { return handle(ctx, r) })
	allow(w) // or one that took its time would be lost
	if err != nil {
		write(w, problemOf(err))
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	answer(w, r, text)
}

// check refuses requests that no page of this server sends.
func (s *Server) check(w http.ResponseWriter, r *http.Request) *problem {
	if r.ContentLength != 0 { // what is left of it is read behind the answer
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(pieceTime))
		w.Header().Set("Connection", "close")
		return refused(http.StatusRequestEntityTooLarge, "the request has a body: the page only reads")
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return refused(http.StatusMethodNotAllowed, "the method is %s: the page only reads", short(r.Method))
	}
	if p := s.access.site(r); p != nil {
		return p
	}
	if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == metricsPath {
		return s.access.holder(r)
	}
	return nil
}

// problemOf words an error.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, context.DeadlineExceeded):
		return refused(http.StatusServiceUnavailable, "reading takes long: what was read is kept, so try again")
	case errors.Is(err, socket.ErrNoAnswer):
		return refused(http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, rundir.ErrNotPlain):
		return refused(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, fs.ErrNotExist):
		return refused(http.StatusNotFound, "a file of the run is not there any more: load the page again")
	}
	return refused(http.StatusInternalServerError, "%v", err)
}

// write answers with a problem.
func write(w http.ResponseWriter, p *problem) {
	text, err := json.Marshal(map[string]string{"error": strings.ToValidUTF8(p.text, "?")})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_, _ = w.Write(text)
}

// file is a file of the page.
type file struct {
	kind string
	text []byte
	tag  string
}

// serve answers with the file, unless the browser has it.
func (f file) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
}
