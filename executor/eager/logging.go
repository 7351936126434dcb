package eager

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/graph"
)

// logging writes a line per call.
type logging struct {
	next Handler
	mu   sync.Mutex
	w    io.Writer
}

// Logging is a handler that passes calls on and writes a line for each to w:
// where it was made, the op, and the metadata that goes in and comes out.
func Logging(next Handler, w io.Writer) Handler { return &logging{next: next, w: w} }

// Execute passes the call on, then writes.
func (l *logging) Execute(inv *Invocation) {
	inv.pass(l.next)
	line := fmt.Sprintf("%v: %s(%s) -> ", inv.Loc.Pos(), opText(inv.Op), list(inv.Args))
	if t := inv.Results[0]; t.refused() {
		line += fmt.Sprintf("error: %v\n", t.Err())
	} else {
		line += fmt.Sprintf("%s on %s\n", list(inv.Results), t.Device())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line) // a log that cannot be written stops no work
}

// opText is the text of an op. Of a function it is the name, since its attributes are the
// program's code; of a frozen op, that of the op itself.
func opText(op graph.Op) string {
	switch op := op.(type) {
	case *Function:
		return op.name
	case *frozen:
		return opText(op.Op)
	}
	return graph.OpString(op)
}

func list(ts []Tensor) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		if t.IsZero() {
			s[i] = "nil"
		} else {
			s[i] = t.Meta().String()
		}
	}
	return strings.Join(s, ", ")
}
