// Package bounds keeps an HTTP server from taking more than it may: of headers, of time for slow clients, and of connections.
// trainer serve and trainer ui have these bounds alike.
//
//	places := make(bounds.Places, 256)
//	server := bounds.HTTP(handler, places.Connection)
//	err := server.Serve(listener)
//
// The types to know are [Places], of which each holder takes one, and [HTTP], which asks for a place for each connection.
package bounds

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerBytes = 16 << 10
	headerTime  = 5 * time.Second // in which a client sends its header
	idleTime    = 2 * time.Minute // between two requests of a connection
	refusalTime = time.Second     // to write full, which nothing holds up but other work of the machine
)

// Places are what may be taken at once: its capacity. Its methods are safe for concurrent use.
type Places chan struct{}

// Take takes a place, and reports whether there was one.
func (p Places) Take() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

// Give gives a place back.
func (p Places) Give() { <-p }

// Connection has each connection take a place: for [HTTP].
func (p Places) Connection(net.Conn) (leave func(), ok bool) { return p.Give, p.Take() }

// HTTP is an HTTP server of h, with bounds on headers, on slow clients and on connections. enter is asked for each
// connection that is new, and leave is called when that is closed. One that may not enter is told to come later and closed.
func HTTP(h http.Handler, enter func(net.Conn) (leave func(), ok bool)) *http.Server {
	c := &connections{enter: enter, open: map[net.Conn]func(){}}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog:  log.New(io.Discard, "", 0), // of connections that clients break off
		ConnState: c.change,
	}
}

// connections counts connections, and closes those that may not enter.
type connections struct {
	enter func(net.Conn) (leave func(), ok bool)
	mu    sync.Mutex
	open  map[net.Conn]func() // to leave
}

// full is the answer to a connection that may not enter. It fits in the system's buffer.
const full = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// change is http.Server.ConnState.
func (c *connections) change(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		leave, ok := c.enter(conn)
		if !ok {
			_ = conn.SetWriteDeadline(time.Now().Add(refusalTime))
			_, _ = io.WriteString(conn, full)
			_ = conn.Close()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[conn] = leave
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		if leave := c.open[conn]; leave != nil {
			leave()
			delete(c.open, conn)
		}
	}
}
