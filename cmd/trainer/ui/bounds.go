package ui

import (
	"context"
	"net/http"
	"time"
)

// The bounds of the server beside those of package bounds. One user has a few tabs.
const (
	mostConnections = 256
	mostRequests    = 64 // at once, streams aside
	mostStreams     = 32
	mostReads       = 128              // of files, with those that do not answer
	mostRuns        = 16               // of one comparison or stream
	answerTime      = 30 * time.Second // of a request that is no stream
	pieceTime       = 10 * time.Second // that a client has to read a piece of a stream
)

// bounded is the context of a request that is no stream: it ends with the server, and in time.
func (s *Server) bounded(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), answerTime)
}

// allow gives a client time to read an answer.
func allow(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
}
