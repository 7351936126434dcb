package timing

import (
	"context"
	"errors"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// hostRounds is how many copies are timed, after a first one that is not. Their median counts.
const hostRounds = 5

// HostCopies times copies from the host to devices, and those out of them, small and large
// ones. Equal devices are timed once. A device without memory for a copy gets no time.
func HostCopies(ctx context.Context, devs []device.Device, o Options) (map[costs.Key]float64, error) {
	times, all := map[costs.Key]float64{}, specs(devs)
	for d, dev := range devs {
		for _, out := range []bool{false, true} {
			for _, size := range []int64{costs.SmallCopy, costs.LargeCopy} {
				k := costs.HostKey(costs.On(all, d), size, out)
				if _, timed := times[k]; timed || o.knows(k) || !all[d].CopyOut {
					continue
				}
				seconds, err := hostCopySeconds(ctx, dev, size, out)
				if errors.Is(err, device.ErrOutOfMemory) {
					continue // the time follows from the link
				}
				if err != nil {
					return nil, err
				}
				times[k] = seconds
			}
		}
	}
	return times, nil
}

// hostCopySeconds is the time of a copy to a device, or out of it.
func hostCopySeconds(ctx context.Context, dev device.Device, size int64, out bool) (seconds float64, err error) {
	s, err := dev.NewStream("host copies")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := s.Alloc(bytes(size), device.Activation)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Free(s.Record())) }()
	h, err := dev.AllocHost(size)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.Free()) }()
	var rounds []float64
	for i := 0; i <= hostRounds; i++ {
		begin := time.Now()
		if i == 0 || !out { // the first one gives it contents
			err = s.CopyIn(b, h)
		} else {
			_, err = s.CopyOut(h, b)
		}
		if err == nil {
			err = ended(ctx, s.Record())
		}
		if err != nil {
			return 0, err
		}
		if i > 0 {
			rounds = append(rounds, max(leastCopy, time.Since(begin).Seconds()))
		}
	}
	return median(rounds), nil
}
