package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// executable compiles the variant of a launch. A device compiles equal
// signatures once.
func (p *Program) executable(l *partition.Launch) (device.Executable, error) {
	v, k := l.Variant, compiled{l.Variant, l.Device}
	if x := p.exes[k]; x != nil {
		return x, nil
	}
	dev := p.rt.Devices[l.Device]
	o := device.CompileOptions{Alias: v.Alias, CheckFinite: p.opt.CheckFinite, Stop: p.opt.Stop}
	x, err := dev.Compile(v.Graph, o)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", l.Segment.Name, dev.ID(), err)
	}
	p.exes[k] = x
	return x, nil
}
