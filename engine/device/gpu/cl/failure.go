package cl

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// failure reads the status word, and clears it. The word is the number of the call that
// failed, from 1 on. No kernel has written anything since, so that its inputs tell why.
func (p *program) failure(to *lane, l *streams.Launch) error {
	word := p.word
	if err := to.call(enqueueReadBuffer, to.queue, p.library.status, 1, 0, 4, at(to.caller, &word[0]), 0, 0, 0); err != nil || word[0] == 0 {
		return err
	}
	failed := int(word[0]) - 1
	word[0] = 0
	if err := to.call(enqueueWriteBuffer, to.queue, p.library.status, 1, 0, 4, at(to.caller, &word[0]), 0, 0, 0); err != nil {
		return err
	}
	at := slices.IndexFunc(p.code, func(in instr) bool { return failed < in.first+len(in.calls) })
	in := &p.code[at]
	c := &in.calls[failed-in.first]
	err := c.Failure(func(v *graph.Value) ([]byte, error) { return p.read(l, in, v) })
	if c.Finite != nil {
		return err
	}
	return fmt.Errorf("%s: %w", in.doing(), err)
}

// read reads a value of an instruction's cluster.
func (p *program) read(l *streams.Launch, in *instr, v *graph.Value) ([]byte, error) {
	s := in.storage(v)
	if s == nil {
		return nil, fmt.Errorf("BUG: %v is not in memory", v)
	}
	b := make([]byte, v.Meta.Bytes())
	return b, p.memory.CopyOut(b, l.Offset(s))
}

// storage is where a value of the cluster is, or the value that it views.
func (in *instr) storage(v *graph.Value) *planner.Storage {
	for {
		if i := slices.Index(in.step.Cluster.In, v); i >= 0 {
			return in.step.In[i]
		}
		if i := slices.Index(in.step.Cluster.Out, v); i >= 0 {
			return in.step.Out[i]
		}
		if v.Node == nil || !fuse.IsView(v.Node) {
			return nil
		}
		v = v.Node.In[0]
	}
}
