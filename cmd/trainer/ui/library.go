package ui

import (
	"sync"

	"github.com/berth-ml/berth/cmd/trainer/ui/curves"
)

// The bounds of what is remembered of runs.
const (
	mostHistories = 64
	mostPoints    = 12 << 20 // of all of them, 16 bytes each
)

// library keeps the histories that were asked for last.
type library struct {
	mu   sync.Mutex
	list []shelf // the newest last
}

type shelf struct {
	dir string
	h   *curves.History
}

func newLibrary() *library { return &library{} }

// history is that of a run folder. The caller reads it.
func (l *library) history(dir string) *curves.History {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := shelf{dir: dir}
	for i, s := range l.list {
		if s.dir == dir {
			of = s
			l.list = append(l.list[:i], l.list[i+1:]...)
			break
		}
	}
	if of.h == nil {
		of.h = curves.Open(dir)
	}
	l.list = append(l.list, of)
	for len(l.list) > 1 && (len(l.list) > mostHistories || l.points() > mostPoints) {
		l.list = append(l.list[:0], l.list[1:]...)
	}
	return of.h
}

// points are those of all histories but the newest, which may be read right now.
func (l *library) points() (n int) {
	for _, s := range l.list[:len(l.list)-1] {
		n += s.h.Points()
	}
	return n
}
