package ui

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// The bounds of the server. One user has a few tabs.
const (
	mostConnections = 256
	mostRequests    = 64 // at once, streams aside
	mostStreams     = 32
	mostRuns        = 16 // of one comparison or stream
	mostHeader      = 16 << 10
	headerTime      = 5 * time.Second
	answerTime      = 30 * time.Second // of a request that is no stream
	pieceTime       = 10 * time.Second // that a client has to read a piece of a stream
	idleTime        = 2 * time.Minute
)

// places are what may be taken at once.
type places chan struct{}

// take takes one, and reports whether there was one.
func (p places) take() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p places) give() { <-p }

// connected closes connections beyond the most.
type connected struct {
	mu   sync.Mutex
	open map[net.Conn]bool
}

func (c *connected) change(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if len(c.open) >= mostConnections {
			_ = conn.Close()
			return
		}
		c.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

// bounded is the context of a request that is no stream: it ends with the server, and in time.
func (s *Server) bounded(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), answerTime)
}
