package devicetest

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// errGate is the failure with which tests open gates.
var errGate = errors.New("the gate failed")

// gate is a queue with one operation, which ends when a test opens the gate.
type gate struct {
	end chan struct{}
	err error
}

func newGate() *gate { return &gate{end: make(chan struct{})} }

func (g *gate) open(err error) {
	g.err = err
	close(g.end)
}

func (g *gate) event() device.Event { return device.Event{Queue: g, Seq: 1} }

func (g *gate) Finished(uint64) bool {
	select {
	case <-g.end:
		return true
	default:
		return false
	}
}

func (g *gate) Err(seq uint64) error {
	if !g.Finished(seq) {
		return nil
	}
	return g.err
}

func (g *gate) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g.end:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
