package session

import (
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/executor"
)

// Inputs are the files and folders that the config, its data and a file of weights, an
// [initial.Source], are read from, so that nothing is written over them. "" is no such file.
func (s *Session) Inputs(weights string) []string {
	inputs := []string{s.Config.Pos.File}
	if d := s.Config.Data; d.Source == "tensors" {
		inputs = append(inputs, filepath.Join(d.Path, d.Input), filepath.Join(d.Path, d.Target))
	} else {
		inputs = append(append(inputs, d.Path), d.MorePaths...)
	}
	if x := s.Config.Data.Division; x != nil {
		inputs = append(inputs, x.ValPath, x.TestPath)
	}
	if weights != "" {
		if from, err := initial.ParseSource(weights); err == nil && from.File != "" {
			inputs = append(inputs, from.File)
		}
	}
	return inputs
}

// ContentsOf is where variables get their first contents.
func ContentsOf(v *initial.Values) executor.Contents {
	c := executor.Contents{Write: v.Read}
	if s := v.Stream(); s != nil {
		c.Sequence = s
	}
	return c
}
