package ui

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/osfile"
)

// stepTime is how long a page waits for a training to begin a step and end it.
const stepTime = time.Minute

// RunID is what the page's URL has for a run folder, which need not be there yet: ADDRESS/#TOKEN/run/ID.
func RunID(dir string) string {
	path, rest := osfile.Real(dir), ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return (&seen{dir: filepath.Join(real, rest)}).id()
		}
		if filepath.Dir(path) == path {
			return (&seen{dir: osfile.Real(dir)}).id()
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

// step answers GET /api/step?run=ID: the next step of its training, as it ran and as it was predicted. It has one traced at
// a time.
func (s *Server) step(ctx context.Context, r *http.Request) (any, error) {
	of, err := s.asked(ctx, r.URL.Query().Get("run"))
	if err != nil {
		return nil, err
	}
	job := s.board.job(of.id())
	trains := job != nil && (job.State == "running" || job.State == "waiting")
	if !trains && of.summary.Condition != rundir.Running {
		return nil, refused(http.StatusConflict, "the run does not train now, so there is no step to trace")
	}
	if s.trace == nil {
		return nil, refused(http.StatusConflict, "this server reaches no training")
	}
	if !s.tracing.Take() {
		return nil, refused(http.StatusConflict, "a step is being traced for another page: ask again once that has ended")
	}
	defer s.tracing.Give()
	number := 0
	if trains {
		number = job.ID
	}
	t, err := s.trace(ctx, of.dir, number)
	switch {
	case errors.Is(err, berth.ErrNoStep), errors.Is(err, berth.ErrInUse), errors.Is(err, berth.ErrClosed):
		return nil, refused(http.StatusConflict, "%v", err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, refused(http.StatusServiceUnavailable, "no step has begun and ended within %v: it may be evaluating or saving, so ask again", stepTime)
	case err != nil:
		return nil, err
	}
	return t, nil
}
