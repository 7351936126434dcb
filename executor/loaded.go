package executor

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// loaded is the part of a program that its runtime knows.
type loaded struct {
	inflight flights
	exes     map[compiled]device.Executable
	calls    map[compiled]*callsOn // of a program that runs op by op
}

// compiled is a segment's variant on a device.
type compiled struct {
	*partition.Variant
	device int // index in Runtime.Devices
}

// release gives the executables back to their devices.
func (l *loaded) release() {
	for _, x := range l.exes {
		x.Release()
	}
	for _, c := range l.calls {
		for _, x := range c.exes {
			x.Release()
		}
	}
	clear(l.exes)
	clear(l.calls)
}
