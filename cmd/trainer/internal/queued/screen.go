package queued

import (
	"fmt"
	"io"
	"sync"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/progress"
)

// screen shows the one job that a command trains itself, as train does, and what happens to it.
type screen struct {
	out io.Writer

	mu  sync.Mutex // calls come from many goroutines
	bar *progress.Bar
}

// tell prints a line.
func (s *screen) tell(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
	}
	fmt.Fprintln(s.out, line)
}

// observe shows a training, and writes it to the job's log.
func (s *screen) observe(log io.Writer, run *berth.Run) *berth.Observer {
	s.mu.Lock()
	s.bar = progress.New(s.out, progress.Of(run, 0))
	shown := s.bar.Observer()
	s.mu.Unlock()
	written := observe(log, run)
	return &berth.Observer{
		Started:  both(s, shown.Started, written.Started),
		Step:     both(s, shown.Step, written.Step),
		Logged:   both(s, shown.Logged, written.Logged),
		Watched:  both(s, shown.Watched, written.Watched),
		Boundary: both(s, shown.Boundary, written.Boundary),
		Note:     both(s, shown.Note, written.Note),
	}
}

// both is a call that is shown, and written.
func both[T any](s *screen, shown, written func(T)) func(T) {
	return func(x T) {
		s.mu.Lock()
		shown(x)
		s.mu.Unlock()
		written(x)
	}
}
