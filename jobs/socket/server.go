package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
)

// Bounds of what a client may take.
const (
	mostConnections = 256
	mostBody        = configs.MaxFile * 7 // a config as a JSON string
	mostHeader      = 16 << 10
	longestPlan     = 10 * time.Minute // for the daemon to plan a job
	longestTrace    = time.Minute      // for a training to begin a step and end it
)

// slowest is how long a client may take to send its request, or to take an answer.
var slowest = 10 * time.Second

// Server answers for a daemon.
type Server struct {
	daemon  *jobs.Daemon
	program Program
	down    func(finish bool)
	http    http.Server
}

// Serve answers on the socket until ctx ends. down is called when a client asks the daemon to
// end. The socket file is removed at the end.
func Serve(ctx context.Context, path string, d *jobs.Daemon, p Program, down func(finish bool)) error {
	if err := Supported(); err != nil {
		return err
	}
	listener, err := listen(path)
	if err != nil {
		return err
	}
	s := &Server{daemon: d, program: p, down: down}
	s.http = http.Server{
		Handler: s.handler(), ReadHeaderTimeout: slowest, ReadTimeout: slowest, IdleTimeout: slowest,
		MaxHeaderBytes: mostHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(answered)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowest)
		defer cancel()
		if s.http.Shutdown(limited) != nil {
			_ = s.http.Close()
		}
	})
	err = s.http.Serve(listener)
	if !stop() { // requests under way get their answers
		<-answered
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("socket: %w", err)
	}
	return nil
}

// listen makes the socket. The queue's lock says that no other daemon lives, so a file that is
// there was left by one that was killed.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the socket: %w", err)
	}
	if err := ownedAlone(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("socket %s: there is another file of that name: move it away", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w%s", err, tooLong(path))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return &ownListener{Listener: l, slots: make(chan struct{}, mostConnections)}, nil
}

// tooLong says what to do about a path that the system does not take for a socket.
func tooLong(path string) string {
	if len(path) < 104 {
		return ""
	}
	return ": the path is too long for a socket: set BERTH_QUEUE to a shorter one"
}

// ownListener hands on connections of this user alone, and few at once.
type ownListener struct {
	net.Listener
	slots chan struct{}
}

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		l.slots <- struct{}{}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}
		if sameUser(c) {
			return &ownConn{Conn: c, free: func() { <-l.slots }}, nil
		}
		c.Close()
		<-l.slots
	}
}

// ownConn gives its place free once, whoever closes it: the server's end and the end of a request may
// come at the same time.
type ownConn struct {
	net.Conn
	closed sync.Once
	free   func()
}

func (c *ownConn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(c.free)
	return err
}

func (s *Server) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /hello", s.answer(func(*http.Request) (any, error) { return s.program, nil }))
	m.HandleFunc("GET /jobs", s.answer(s.list))
	m.HandleFunc("POST /jobs", s.answer(s.submit))
	m.HandleFunc("GET /jobs/{id}", s.answer(s.view))
	m.HandleFunc("GET /jobs/{id}/config", s.answer(s.config))
	m.HandleFunc("GET /jobs/{id}/step", s.answer(s.step))
	m.HandleFunc("PATCH /jobs/{id}", s.answer(s.change))
	m.HandleFunc("DELETE /jobs/{id}", s.answer(s.remove))
	m.HandleFunc("GET /memory", s.answer(func(*http.Request) (any, error) { return s.daemon.Memory(), nil }))
	m.HandleFunc("POST /down", s.answer(s.end))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		soon(w) // for the answers of m itself
		m.ServeHTTP(w, r)
	})
}

// soon lets a client take only so long to take the answer that comes next.
func soon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowest))
}

// answer writes what a handler returns as JSON.
func (s *Server) answer(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		if r.Method == http.MethodGet { // before the body has ended, r.Context does not end with a client that hangs up
			_, _ = io.Copy(io.Discard, r.Body)
		}
		value, err := handle(r)
		status := http.StatusOK
		if err != nil {
			status, value = http.StatusBadRequest, failureOf(err)
		}
		soon(w)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
}

func failureOf(err error) failure {
	f := failure{Error: err.Error(), Usage: berth.IsUsage(err)}
	for name, cause := range causes {
		if errors.Is(err, cause) {
			f.Cause = name
		}
	}
	return f
}

func (s *Server) list(*http.Request) (any, error) {
	l := listing{Jobs: s.daemon.Views()}
	for i := range l.Jobs { // the answer for one job has them
		l.Jobs[i].Events, l.Jobs[i].Attempts = nil, nil
	}
	if err := s.daemon.Full(); err != nil {
		l.Full = err.Error()
	}
	return l, nil
}

func (s *Server) submit(r *http.Request) (any, error) {
	var sub jobs.Submission
	if err := decode(r, &sub); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestPlan)
	defer cancel()
	return s.daemon.Submit(ctx, sub)
}

func (s *Server) view(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	return s.daemon.View(id)
}

func (s *Server) config(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	text, err := s.daemon.Config(id)
	return string(text), err
}

func (s *Server) step(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), longestTrace)
	defer cancel()
	return s.daemon.TraceStep(ctx, id)
}

func (s *Server) change(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	var c change
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	switch {
	case c.Priority != nil && c.Wish != "":
		return nil, errors.New("request: it has a wish and a priority: send one of them")
	case c.Priority != nil:
		return s.daemon.SetPriority(id, *c.Priority)
	}
	return s.daemon.Want(id, c.Wish)
}

func (s *Server) remove(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.daemon.Remove(id)
}

func (s *Server) end(r *http.Request) (any, error) {
	var e ending
	if err := decode(r, &e); err != nil {
		return nil, err
	}
	s.down(e.Finish)
	return s.program, nil
}

func jobOf(r *http.Request) (int, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return 0, fmt.Errorf("job %.20q: expected a number", r.PathValue("id"))
	}
	return id, nil
}

// decode reads the one JSON object of a body.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("request: there is more after the JSON object")
	}
	return nil
}
