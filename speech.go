package berth

import (
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/infer"
)

// speaks refuses a model that is not of text.
func (s *setup) speaks() error {
	if s.info.Tokenizer == nil {
		return fmt.Errorf("%w: the model is not of text (data.source %s): only a model of text generates", ErrOptions, s.config.Data.Source)
	}
	if len(s.info.ClassNames) > 0 {
		return fmt.Errorf("%w: the model gives a text a class (data.label %s): only a model of the next tokens generates", ErrOptions, s.config.Data.Label)
	}
	if l := bothEnds(s.spec.Layers); l != nil {
		return fmt.Errorf("%w: the %s layer %q reads from both ends (bidirectional), and the tokens to come are not known: only a model that reads forwards generates", ErrOptions, l.Type(), l.Name)
	}
	return nil
}

// bothEnds is the first layer that reads a sequence from both ends, nil if there is none.
func bothEnds(layers models.Stack) (first *models.Named) {
	layers.Each(func(n models.Named) {
		if l, ok := n.Layer.(interface{ BothEnds() bool }); ok && l.BothEnds() && first == nil {
			first = &n
		}
	})
	return first
}

// seesTarget is a note that a model of the next tokens sees them; "" if it does not.
func (s *setup) seesTarget() string {
	l := bothEnds(s.spec.Layers)
	if l == nil || !s.trains || s.info.Tokenizer == nil || s.info.Target.Meta.Shape.Rank() == 0 {
		return ""
	}
	where := configs.Pos{File: l.Pos.File, Line: l.Pos.Line}
	return fmt.Sprintf("%s: the %s layer %q reads from both ends (bidirectional), so it sees the tokens that the model is to predict, and the loss says nothing about other texts: leave bidirectional out", where, l.Type(), l.Name)
}

// generator is the size of a generation: the context of the data that the model was
// trained on. An imported model's data is not known: it was trained on all positions.
func (s *setup) generator() infer.GeneratorOptions {
	context := s.spec.Input.Elems()
	if most := s.spec.Positions(); s.info.Fingerprint == importedPrint && most > 0 {
		context = most
	}
	return infer.GeneratorOptions{Context: context}
}
