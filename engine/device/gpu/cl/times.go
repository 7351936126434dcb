package cl

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
)

// times is who hears the times of kernels, as in device.OpenOptions.
type times struct {
	onKernel    func(device.KernelSpan)
	wantKernels func() bool
}

// wanted tells whether a launch is to tell the times of its kernels.
func (t times) wanted() bool {
	return t.onKernel != nil && (t.wantKernels == nil || t.wantKernels())
}

// tell tells the time of a step's kernels, which have ended.
func (p *program) tell(l *streams.Launch, step int, start time.Time) {
	in := &p.code[step]
	if c := in.step.Cluster; in.work == nil {
		in.work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
	}
	p.times.onKernel(device.KernelSpan{Work: in.work, Launch: l.Event(), Start: start, End: time.Now()})
}
