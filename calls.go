package berth

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/internal/errs"
)

// What every exported method asks first, so that a mistake of its caller is an error and no
// panic further down: see the package's comment.

// checkEmit refuses a nil function for answers.
func checkEmit(isNil bool) error { return errs.CheckFunction("emit", isNil) }

// checkOpened refuses a nil Run, and one that Open did not make.
func (r *Run) checkOpened() error {
	if r == nil || r.run == nil {
		return errs.NotOpened("Run", "Open")
	}
	return nil
}

// checkOpen also refuses a closed Run.
func (r *Run) checkOpen() error {
	if err := r.checkOpened(); err != nil {
		return err
	}
	return r.run.CheckOpen()
}

// check also refuses a nil context.
func (r *Run) check(ctx context.Context) error { return cmp.Or(r.checkOpen(), errs.CheckContext(ctx)) }

// checkOpened refuses a nil Trained, and one that OpenTrained did not make.
func (t *Trained) checkOpened() error {
	if t == nil || t.model == nil {
		return errs.NotOpened("Trained", "OpenTrained")
	}
	return nil
}

// checkOpen also refuses a closed Trained.
func (t *Trained) checkOpen() error {
	if err := t.checkOpened(); err != nil {
		return err
	}
	return t.model.CheckOpen()
}

// check also refuses a nil context.
func (t *Trained) check(ctx context.Context) error {
	return cmp.Or(t.checkOpen(), errs.CheckContext(ctx))
}

// checkOpened refuses a nil Training, and one that Run.Start did not make.
func (t *Training) checkOpened() error {
	if t == nil || t.training == nil {
		return errs.NotOpened("Training", "Run.Start")
	}
	return nil
}

// check also refuses a closed Training and a nil context.
func (t *Training) check(ctx context.Context) error {
	if err := t.checkOpened(); err != nil {
		return err
	}
	return cmp.Or(t.training.CheckOpen(), errs.CheckContext(ctx))
}

// checkOpened refuses a nil Service, and one that Trained.Serve did not make.
func (s *Service) checkOpened() error {
	if s == nil || s.service == nil {
		return errs.NotOpened("Service", "Trained.Serve")
	}
	return nil
}

// checkOpen also refuses a closed Service.
func (s *Service) checkOpen() error {
	if err := s.checkOpened(); err != nil {
		return err
	}
	return s.service.CheckOpen()
}

// check also refuses a nil context.
func (s *Service) check(ctx context.Context) error {
	return cmp.Or(s.checkOpen(), errs.CheckContext(ctx))
}
