package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// errGone is the cause of a request's context whose client has gone.
var errGone = errors.New("the client has gone")

// connKey is the key of a connection in the contexts of its requests.
type connKey struct{}

// answering is the answer to a request on its way to the client, which gets time to read
// each piece of it.
type answering struct {
	http.ResponseWriter
	conn   net.Conn      // nil where the server is not of Server.HTTP
	client time.Duration // to read a piece
	status int
	whole  bool // the body is read
	stream bool // events, each of which comes when it is ready
	left   int  // bytes of the piece that the client reads now

	mu    sync.Mutex
	begun bool
}

// WriteHeader notes the status.
func (a *answering) WriteHeader(status int) {
	a.begin(status)
	a.allow(0)
	a.ResponseWriter.WriteHeader(status)
}

// Write writes piece by piece.
func (a *answering) Write(b []byte) (n int, err error) {
	a.begin(http.StatusOK)
	for {
		next := b[n:min(len(b), n+pieceBytes)]
		if a.left -= len(next); a.stream || a.left < 0 {
			a.allow(pieceBytes - len(next))
		}
		k, err := a.ResponseWriter.Write(next)
		if n += k; err != nil || n == len(b) {
			return n, err
		}
	}
}

// begin notes the status of an answer that has not begun.
func (a *answering) begin(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		a.status, a.begun = status, true
	}
}

// allow gives the client time to read what is written next, and so many bytes behind it.
func (a *answering) allow(more int) {
	a.left = more
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.client)) // a server that cannot has its own
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// streamBuffer is the memory in bytes that the system has for events that a client does not
// read: it shows soon that none are read.
const streamBuffer = 16 << 10

// streams makes the answer a stream.
func (a *answering) streams() {
	a.stream = true
	if c, ok := a.conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = c.SetWriteBuffer(streamBuffer) // the system's own buffer will do
	}
}

// firstLook is the time after which a client that sends no more is looked for.
const firstLook = 250 * time.Millisecond

// life is the context of a request whose client may close its side of the connection and
// wait for the answer: net/http ends its own context then. The caller calls stop.
func (a *answering) life(r *http.Request) (ctx context.Context, stop func()) {
	if a.conn == nil || r.ProtoMajor != 1 {
		return r.Context(), func() {}
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(r.Context()))
	var looks sync.WaitGroup
	looks.Add(1)
	unwatch := context.AfterFunc(r.Context(), func() {
		defer looks.Done()
		a.look(ctx, r, end)
	})
	return ctx, func() {
		end(nil)
		if unwatch() {
			looks.Done()
		}
		looks.Wait()
	}
}

// look ends the context of a client that has gone. One that has closed its side alone cannot
// be told from it, but by sending: so it gets an interim response, which clients pass over,
// while its answer takes long.
func (a *answering) look(ctx context.Context, r *http.Request, end context.CancelCauseFunc) {
	for pause := firstLook; ; pause *= 2 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if begun, err := a.probe(r); begun {
			return // writing the answer tells
		} else if err != nil {
			end(errGone)
			return
		}
	}
}

// probe sends an interim response, unless the answer has begun.
func (a *answering) probe(r *http.Request) (begun bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun {
		return true, nil
	}
	if !r.ProtoAtLeast(1, 1) { // it knows no interim responses
		return false, nil
	}
	if err := a.conn.SetWriteDeadline(time.Now().Add(a.client)); err != nil {
		return false, err
	}
	_, err = io.WriteString(a.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return false, err
}
