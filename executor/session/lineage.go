package session

import (
	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
)

// Lineage is what a model is now, to compare with checkpoints.
func Lineage(c *configs.Config, info *datasets.Info, spec *models.Spec) (m restore.Model, err error) {
	m = restore.Model{Config: c, Data: info.Fingerprint}
	if c.Model.Preset == configs.ModelGiven {
		m.Own, err = spec.Fingerprint()
	}
	return m, err
}

// Lineage is what the session's model is now, to compare with checkpoints.
func (s *Session) Lineage() (restore.Model, error) { return Lineage(s.Config, s.Info, &s.Spec) }

// RunLineage is what a training is now, to compare with checkpoints.
func (s *Session) RunLineage() (*restore.Run, error) {
	m, err := s.Lineage()
	z := &s.Sizes
	return &restore.Run{
		Model: m, Numerics: s.numerics(), Graph: s.Plan.Graph, LostDevices: s.Planner.Lost,
		Samples: z.Samples, Asked: z.Asked, Batch: z.Batch, Pace: z.Pace,
	}, err
}
