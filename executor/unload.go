package executor

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/residency"
)

// Close waits for the program's steps and frees its tensors and executables. The
// variables that another program of the runtime has stay. The program must not be
// used afterwards, and a second call does nothing.
func (p *Program) Close() error {
	if p.closed || p.rt.closed {
		return nil
	}
	var err error
	if p.rt.failure == nil { // then everything has ended, and was reported
		err = p.Drain(context.Background())
	}
	p.closed = true
	delete(p.rt.programs, p.opt.Net)
	return errors.Join(err, p.unload())
}

// unload frees what loading made.
func (p *Program) unload() error {
	p.release()
	p.rt.refused = append(p.rt.refused, p.beside.takeRefused()...)
	p.rt.Residency.SetUses(nil) // the order may have the tensors
	p.rt.expected = nil
	var over []*residency.Tensor
	for _, t := range p.tensors {
		if n, variable := p.rt.users[t]; n > 1 {
			p.rt.users[t]--
			continue
		} else if variable {
			delete(p.rt.users, t)
		}
		over = append(over, t)
	}
	clear(p.tensors)
	return p.rt.Residency.Forget(over...)
}
