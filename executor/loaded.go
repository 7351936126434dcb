package executor

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/residency"
)

// loaded is the part of a program that its runtime knows.
type loaded struct {
	inflight flights
	exes     map[compiled]device.Executable
	calls    map[compiled]*callsOn // of the segments that run op by op
	beside   *beside               // nil unless segments are compiled beside the steps
}

// callsOn are the calls of a segment's variant on a device.
type callsOn struct {
	calls []calls.Call
	exes  []device.Executable // per call
	temps map[*calls.Memory]*residency.Tensor
}

// release gives the executables back to their device.
func (c *callsOn) release() {
	for _, x := range c.exes {
		x.Release()
	}
}

// release gives the executables back to their devices.
func (l *loaded) release() {
	l.beside.end()
	for _, x := range l.exes {
		x.Release()
	}
	for _, c := range l.calls {
		c.release()
	}
	clear(l.exes)
	clear(l.calls)
}
