package partition

import "github.com/berth-ml/berth/engine/device"

// overhead is the rough time from one launch to the next, in seconds.
const overhead = 5e-6

// seconds is the rough time of flops on a device.
func seconds(flops int64, spec device.Spec) float64 {
	if spec.FlopsPerSecond <= 0 {
		return float64(flops)
	}
	return float64(flops) / spec.FlopsPerSecond
}

// copySeconds is the time of a copy between devices: as measured, or else as their
// links give it.
func (o *PlanOptions) copySeconds(bytes int64, from, to int) float64 {
	if o.CopySeconds != nil {
		if s, ok := o.CopySeconds(from, to, bytes); ok {
			return s
		}
	}
	return linkSeconds(bytes, o.Devices[from], o.Devices[to])
}

// linkSeconds is the time of a copy from one device to another: over the slower
// link, and over both where the host lies between.
func linkSeconds(bytes int64, from, to device.Spec) float64 {
	perByte := func(s device.Spec) float64 {
		if s.LinkBytesPerS <= 0 {
			return 0
		}
		return 1 / s.LinkBytesPerS
	}
	a, b := perByte(from), perByte(to)
	if from.Kind == to.Kind && to.PeerCopy {
		return overhead + float64(bytes)*max(a, b)
	}
	return overhead + float64(bytes)*(a+b)
}
