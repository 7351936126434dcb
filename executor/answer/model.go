package answer

import (
	"fmt"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
)

// Model is a trained model, and its cut over devices.
type Model struct {
	Infer infer.Model
	Info  *datasets.Info // of the data that it was trained on

	Source, Label string // data.source and data.label of its config, for errors
	Imported      bool   // it was not trained since: its data is not known
}

// Classifies reports whether answers are classes, and not numbers.
func (m *Model) Classifies() bool { return m.Infer.Spec.Classifies() && m.Info.Classes > 0 }

// Speaks refuses a model that does not generate text.
func (m *Model) Speaks() error {
	if m.Info.Tokenizer == nil {
		return fmt.Errorf("%w: the model was not trained on text (data.source %s): only a model of text can generate", errs.ErrOptions, m.Source)
	}
	if len(m.Info.ClassNames) > 0 {
		return fmt.Errorf("%w: the model classifies texts (data.label %s): only a model that predicts the next token can generate", errs.ErrOptions, m.Label)
	}
	if l := m.Infer.Spec.Layers.BothEnds(); l != nil {
		return fmt.Errorf("%w: the %s layer %q is bidirectional, and needs tokens that are not generated yet: only a model that reads forwards can generate", errs.ErrOptions, l.Type(), l.Name)
	}
	return nil
}

// Generator is the size of a text's caches: the context of the data that the model was
// trained on. An imported model was trained on all its positions.
func (m *Model) Generator() infer.GeneratorOptions {
	context := m.Infer.Spec.Input.Elems()
	if most := m.Infer.Spec.Positions(); m.Imported && most > 0 {
		context = most
	}
	return infer.GeneratorOptions{Context: context}
}
