package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// executable compiles the variant of a launch. A device compiles equal
// signatures once.
func (p *Program) executable(l *partition.Launch) (device.Executable, error) {
	v, seg := l.Variant, l.Segment
	if x := p.exes[v]; x != nil {
		return x, nil
	}
	dev := p.rt.Devices[seg.Device]
	o := device.CompileOptions{Alias: v.Alias, CheckFinite: p.opt.CheckFinite, Stop: p.opt.Stop}
	x, err := dev.Compile(v.Graph, o)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", seg.Name, dev.ID(), err)
	}
	p.exes[v] = x
	return x, nil
}
