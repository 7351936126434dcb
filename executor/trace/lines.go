package trace

import (
	"bufio"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// mostLines bounds the lines that wait to be written.
const mostLines = 1 << 12

// patience is the longest that a run waits for a log that nobody reads.
const patience = time.Second

// lines writes lines on a goroutine of its own, from start to end. Lines that find no
// room are left out, and counted.
type lines struct {
	out   io.Writer
	queue chan fmt.Stringer
	room  chan struct{} // has an entry after a line was written
	done  chan struct{} // closed when all is written
	left  int           // lines left out since the last one that had room
	stuck atomic.Bool   // nothing was written for as long as patience
}

func startLines(out io.Writer) *lines {
	l := &lines{out: out, queue: make(chan fmt.Stringer, mostLines), room: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l
}

// write is the goroutine. It buffers lines while more of them wait.
func (l *lines) write() {
	defer close(l.done)
	w := bufio.NewWriter(l.out)
	for x := range l.queue {
		fmt.Fprintln(w, x)
		l.stuck.Store(false)
		if len(l.queue) == 0 {
			_ = w.Flush() // a log that cannot be written is no reason to end a run
		}
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
	if l.left > 0 { // end comes after the last line
		fmt.Fprintln(w, leftOut(l.left))
	}
	_ = w.Flush()
}

// leftOut is printed in place of so many lines that found no room.
type leftOut int

func (n leftOut) String() string {
	return fmt.Sprintf("(%d calls are left out: the log is read too slowly)", n)
}

// add queues a line. It never waits.
func (l *lines) add(x fmt.Stringer) {
	if l.left > 0 && len(l.queue)+1 < cap(l.queue) {
		l.queue <- leftOut(l.left) // there is room: nobody else adds
		l.left = 0
	}
	select {
	case l.queue <- x:
	default:
		l.left++
	}
}

// await waits until half of the room is free, unless nothing is written for as long as
// patience. Then nobody waits until something is.
func (l *lines) await() {
	for len(l.queue) >= cap(l.queue)/2 && !l.stuck.Load() {
		t := time.NewTimer(patience)
		select {
		case <-l.room:
		case <-t.C:
			l.stuck.Store(true)
		}
		t.Stop()
	}
}

// end waits until all is written, or for patience. Nothing may be added any more.
func (l *lines) end() {
	close(l.queue)
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-l.done:
	case <-t.C:
	}
}
