package ui

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

const (
	mostPictures = 16               // that are remembered
	failedFor    = 30 * time.Second // a failure is remembered: the data may come back
	startTime    = 5 * time.Second  // that a run which starts has to write its config
	startEvery   = 50 * time.Millisecond
)

// Picture is a plan, drawn.
type Picture struct {
	SVG   string `json:"svg"`
	Table string `json:"table"` // the same in words
}

// pictures draws plans, one at a time, and remembers them by their config.
type pictures struct {
	draw func(ctx context.Context, config []byte) (Picture, error) // nil: plans are not drawn
	turn bounds.Places                                             // one place

	mu   sync.Mutex
	list []picture // the newest last
}

type picture struct {
	key [32]byte // SHA-256 of the config
	Picture
	err error
	at  time.Time
}

func newPictures(draw func(context.Context, []byte) (Picture, error)) *pictures {
	return &pictures{draw: draw, turn: make(bounds.Places, 1)}
}

// of is the picture for a config.
func (p *pictures) of(ctx context.Context, config []byte) (Picture, error) {
	key := sha256.Sum256(config)
	if x, ok := p.known(key); ok {
		return x.Picture, x.err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return Picture{}, context.Cause(ctx)
	}
	defer p.turn.Give()
	if x, ok := p.known(key); ok { // somebody else has had it drawn
		return x.Picture, x.err
	}
	drawn, err := p.draw(ctx, config)
	if ctx.Err() != nil { // nobody waits for it any more
		return Picture{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list = append(p.list, picture{key, drawn, err, time.Now()}); len(p.list) > mostPictures {
		p.list = append(p.list[:0], p.list[1:]...)
	}
	return drawn, err
}

// known is a picture that is remembered.
func (p *pictures) known(key [32]byte) (picture, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.list) - 1; i >= 0; i-- {
		if x := p.list[i]; x.key == key && (x.err == nil || time.Since(x.at) < failedFor) {
			return x, true
		}
	}
	return picture{}, false
}

// plan answers GET /api/plan?run=ID with the picture of a run's plan.
func (s *Server) plan(ctx context.Context, r *http.Request) (any, error) {
	if s.pictures.draw == nil {
		return nil, refused(http.StatusNotFound, "this page draws no plans")
	}
	of, err := s.asked(ctx, r.URL.Query().Get("run"))
	if err != nil {
		return nil, err
	}
	config, err := s.configSoon(ctx, of)
	switch {
	case errors.Is(err, errStarts):
		return nil, refused(http.StatusConflict, "%v", err)
	case err != nil:
		return nil, refused(http.StatusUnprocessableEntity, "the plan cannot be drawn: %v", err)
	}
	p, err := s.pictures.of(ctx, config)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, refused(http.StatusUnprocessableEntity, "the plan cannot be drawn: %v", err)
	}
	return p, nil
}

// errStarts says that a run has no config yet.
var errStarts = errors.New("the run is just starting, and has not written its config yet: draw its plan in some seconds")

// configSoon is configText, where a run that starts may take some seconds to write it.
func (s *Server) configSoon(ctx context.Context, of *seen) ([]byte, error) {
	tick := time.NewTicker(startEvery)
	defer tick.Stop()
	for began := time.Now(); ; {
		text, err := configText(of)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !s.starts(of) {
			return text, err
		}
		if time.Since(began) > startTime {
			return nil, errStarts
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errStarts
		}
	}
}

// starts reports whether a run without a config is about to write it: somebody trains it, or is about to.
func (s *Server) starts(of *seen) bool {
	job := s.board.job(of.id())
	return of.summary.Condition == rundir.Running || job != nil && job.State == string(queue.Running)
}

// configText is the config of a run: its file, or where that is gone that of its newest checkpoint.
func configText(of *seen) ([]byte, error) {
	f, err := rundir.OpenPlain(filepath.Join(of.dir, rundir.ConfigName))
	if err != nil {
		if of.summary.Newest != nil && !errors.Is(err, rundir.ErrNotPlain) {
			return of.summary.Newest.Config, nil
		}
		return nil, fmt.Errorf("its config cannot be read: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configs.MaxFile+1))
	if err == nil && len(text) > configs.MaxFile {
		err = errors.New("its config is too long")
	}
	return text, err
}
