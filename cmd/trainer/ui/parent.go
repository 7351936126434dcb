package ui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
)

// configPage is a config beside those that it came from.
type configPage struct {
	Lines []setting    `json:"lines"`
	Bases []baseConfig `json:"bases"` // the nearest first
}

// setting is a key with its value.
type setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// baseConfig is a config that a run's came from, or may have.
type baseConfig struct {
	Name    string    `json:"name"`
	Run     string    `json:"run,omitempty"` // ID of the run whose config it is; "": of none, or of the same
	Differs []setting `json:"differs"`       // the keys in which the run's config differs, with the values here; "": there is no such key
}

// configOf is the config of a run; nil where none can be read.
func (s *Server) configOf(ctx context.Context, of *seen) (*configPage, error) {
	c := of.summary.Config
	if c == nil {
		return nil, nil
	}
	settings, err := c.AllSettings()
	if err != nil {
		return nil, err
	}
	p := &configPage{Lines: []setting{}, Bases: []baseConfig{}}
	for _, x := range settings {
		p.Lines = append(p.Lines, setting(x))
	}
	add := func(base *configs.Config, name, run string) error {
		if base == nil {
			return nil
		}
		list, err := base.AllSettings()
		if err == nil {
			p.Bases = append(p.Bases, baseConfig{name, run, differing(settings, list)})
		}
		return err
	}
	parent, name, run := s.parent(ctx, of)
	if err := add(parent, name, run); err != nil {
		return nil, err
	}
	first, name := begun(of)
	if err := add(first, name, ""); err != nil {
		return nil, err
	}
	if slices.Contains(configs.Names(), c.Name) {
		shipped, err := configs.Load(c.Name, configs.Overlay{})
		if err != nil {
			return nil, err
		}
		if err := add(shipped, "the shipped "+c.Name, ""); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// differing are the keys of a config that have another value in a base, and then those that only the base has.
func differing(of, base []configs.Setting) []setting {
	list, before := []setting{}, map[string]string{}
	for _, x := range base {
		before[x.Key] = x.Value
	}
	for _, x := range of {
		if value, known := before[x.Key]; !known || value != x.Value {
			list = append(list, setting{x.Key, value})
		}
		delete(before, x.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		list = append(list, setting{key, before[key]})
	}
	return list
}

// parent is the config of the sweep whose trial a run is, or of the run whose weights it began with, as its job says; nil: there is
// none.
func (s *Server) parent(ctx context.Context, of *seen) (c *configs.Config, name, run string) {
	job := s.board.job(of.id())
	switch {
	case job == nil:
	case job.Sweep != 0 && s.config != nil:
		return s.sweeps.config(ctx, job.Sweep, s.config), fmt.Sprintf("sweep %d", job.Sweep), ""
	case job.InitFrom() != 0:
		if from := s.board.runOf(job.InitFrom()); from != nil {
			return from.summary.Config, from.shown + ", with whose weights it began", from.id()
		}
	}
	return nil, "", ""
}

// begun is the config of a run's oldest checkpoint, if it has changed since: it was resumed with another. nil: it has not, or is
// not known.
func begun(of *seen) (*configs.Config, string) {
	if of.summary.Checkpoints < 2 {
		return nil, ""
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(of.dir), checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if err != nil {
		return nil, ""
	}
	defer db.Close()
	list, _, err := db.List()
	if err != nil || len(list) < 2 || string(list[0].Config) == string(list[len(list)-1].Config) {
		return nil, ""
	}
	c, err := configs.Parse("config", list[0].Config, configs.Overlay{})
	if err != nil {
		return nil, ""
	}
	return c, fmt.Sprintf("its checkpoint %d, at step %d", list[0].ID, list[0].Step)
}

// mostSweeps is how many configs of sweeps are remembered.
const mostSweeps = 64

// sweepConfigs remembers the configs of sweeps by their job. They do not change.
type sweepConfigs struct {
	mu   sync.Mutex
	list map[int]*configs.Config
}

// config is that of a sweep; nil where it cannot be had now.
func (w *sweepConfigs) config(ctx context.Context, id int, ask func(context.Context, int) (string, error)) *configs.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.list[id]; c != nil {
		return c
	}
	text, err := ask(ctx, id)
	if err != nil {
		return nil
	}
	c, err := configs.Parse("config", []byte(text), configs.Overlay{})
	if err != nil {
		return nil
	}
	if w.list == nil || len(w.list) == mostSweeps {
		w.list = map[int]*configs.Config{}
	}
	w.list[id] = c
	return c
}
