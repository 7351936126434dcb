package timing

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// Options changes what is measured and how long, and who hears of it.
type Options struct {
	OpByOp   bool                   // segments run op by op
	Least    time.Duration          // of measuring segments, on each device; 0 means 50 ms
	Known    func(k costs.Key) bool // times that are not needed; nil means none
	Progress func(share float64)    // hears how far it is, from 0 to 1; nil for nobody
}

// knows reports whether a time is not needed.
func (o *Options) knows(k costs.Key) bool { return o.Known != nil && o.Known(k) }

// specs describes devices.
func specs(devs []device.Device) []device.Spec {
	all := make([]device.Spec, len(devs))
	for i, d := range devs {
		all[i] = d.Spec()
	}
	return all
}
