package executor

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// executable compiles a variant of a segment. A device compiles equal
// signatures once.
func (p *Program) executable(seg *partition.Segment, later, tail bool) (device.Executable, error) {
	k := exeKey{tail, seg.ID, later}
	if x := p.exes[k]; x != nil {
		return x, nil
	}
	v, dev := variant(seg, later), p.rt.Devices[seg.Device]
	o := device.CompileOptions{Alias: v.Alias, CheckFinite: p.opt.CheckFinite, Stop: p.opt.Stop}
	x, err := dev.Compile(v.Graph, o)
	if errors.Is(err, device.ErrOutOfMemory) { // its temporaries found no room: give back pooled buffers
		_ = p.rt.settle() // Step or Wait will report failures
		p.rt.Residency.Trim()
		x, err = dev.Compile(v.Graph, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", seg.Name, dev.ID(), err)
	}
	p.exes[k] = x
	return x, nil
}

func variant(seg *partition.Segment, later bool) *partition.Variant {
	if later {
		return &seg.Later
	}
	return &seg.First
}
