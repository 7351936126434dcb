package streams

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
)

// KernelTimes is who hears the times of kernels, as in device.OpenOptions.
type KernelTimes struct {
	OnKernel    func(device.KernelSpan)
	WantKernels func() bool
}

// TimesOf is who hears the times of the kernels of devices that are opened so.
func TimesOf(o device.OpenOptions) KernelTimes { return KernelTimes{o.OnKernel, o.WantKernels} }

// Wanted tells whether a launch is to tell the times of its kernels. A program asks once
// a launch.
func (t KernelTimes) Wanted() bool {
	return t.OnKernel != nil && (t.WantKernels == nil || t.WantKernels())
}

// Tell tells the time of a cluster's kernels, which have ended. work is nil before the
// first call for the cluster, which makes it.
func (t KernelTimes) Tell(l *Launch, c *fuse.Cluster, work **device.Work, start time.Time) {
	end := time.Now()
	if *work == nil {
		*work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
	}
	t.OnKernel(device.KernelSpan{Work: *work, Launch: l.Event(), Start: start, End: end})
}
