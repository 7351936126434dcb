package ui

import (
	"context"
	"sync"

	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
	"github.com/berth-ml/berth/cmd/trainer/ui/curves"
	"github.com/berth-ml/berth/internal/filecache"
)

// The bounds of what is remembered of runs.
const (
	mostHistories = 64
	mostPoints    = 6 << 20 // of all of them, 16 bytes each
)

// library keeps the histories that were asked for last.
type library struct {
	index *filecache.Folder // of their indexes; nil: the user has no folder for cached files

	mu   sync.Mutex
	list []shelf // the newest last

	writing bounds.Places // an index is written
	writes  tasks
}

type shelf struct {
	dir string
	h   *curves.History
}

func newLibrary() *library {
	l := &library{writing: make(bounds.Places, 1)}
	if folder, err := filecache.Default(filecache.Curves); err == nil {
		l.index = &folder
	}
	return l
}

// read is the history of a run folder with what is new. An index that is due is written meanwhile, one at a time.
func (l *library) read(ctx context.Context, dir string) (*curves.History, error) {
	h := l.history(dir)
	err := h.Read(ctx)
	if err == nil && h.IndexDue() {
		l.write(h)
	}
	return h, err
}

// write writes an index, unless another is written.
func (l *library) write(h *curves.History) {
	if !l.writing.Take() {
		return
	}
	begun := l.writes.begin(func() {
		defer l.writing.Give()
		_ = h.WriteIndex() // without it, the next server reads all again
	})
	if !begun {
		l.writing.Give()
	}
}

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
		if of.h = curves.Open(dir); l.index != nil {
			of.h.Indexed(*l.index)
		}
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
