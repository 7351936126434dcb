package session

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// listener is told of what devices do, from the goroutines of their streams.
type listener struct {
	span    func(device.Span)
	spans   func(stream string) bool // whether span is to be told of a stream; nil: of all
	kernel  func(device.KernelSpan)
	kernels func() bool // whether kernel is to be told; nil: always
}

// wantsKernels reports whether kernel is to be told now.
func (l *listener) wantsKernels() bool { return l.kernels == nil || l.kernels() }

// ofRank is what distinguishes the devices of a rank. The zero value is for those of a process alone.
type ofRank struct {
	prefix string // of their IDs
	among  int    // ranks that divide the memory of the machine
}

// openDevices opens devices, which tell a listener what they do.
func openDevices(c configs.Devices, tell listener, of ofRank) (devs []device.Device, err error) {
	kinds, order, err := kindsOf(c)
	if err != nil {
		return nil, err
	}
	opened := map[string][]device.Device{}
	for _, k := range kinds {
		k.Keep, k.Prefix, k.Among = c.Compiled, of.prefix, of.among
		k.Sync, k.OnSpan, k.OnKernel, k.WantKernels = c.Runs(configs.OpByOpSync), tell.span, tell.kernel, tell.kernels
		k.WantSpans = tell.spans
		more, err := device.Open(k.kind, k.OpenOptions)
		if err != nil {
			return nil, errors.Join(err, closeAll(devs))
		}
		opened[k.kind] = more
		devs = append(devs, more...)
	}
	for i, kind := range order {
		devs[i], opened[kind] = opened[kind][0], opened[kind][1:]
	}
	return devs, nil
}

func closeAll(devs []device.Device) error {
	var errs []error
	for _, d := range devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// kindOptions opens the devices of a kind.
type kindOptions struct {
	kind string
	device.OpenOptions
}

// Kinds are those of a config's devices, in its order.
func Kinds(c configs.Devices) ([]string, error) {
	_, order, err := kindsOf(c)
	return order, err
}

// kindsOf lists the kinds of devices to open, each once, and the kind of each
// device in the order of the config.
func kindsOf(c configs.Devices) (kinds []kindOptions, order []string, err error) {
	entries := c.Each
	if len(entries) == 0 {
		entries = []configs.DeviceEntry{{Use: c.Use}}
	}
	index := map[string]int{} // in kinds
	for _, e := range entries {
		list, err := device.ParseList(e.Use)
		if err != nil {
			return nil, nil, err
		}
		for _, x := range list {
			i, known := index[x.Kind]
			if !known {
				i, index[x.Kind] = len(kinds), len(kinds)
				kinds = append(kinds, kindOptions{kind: x.Kind, OpenOptions: device.OpenOptions{Threads: c.Threads, MemoryBytes: c.Memory.Bytes, Shared: c.ShareDevice}})
			}
			k := &kinds[i]
			k.Count += x.Count
			k.Each = append(k.Each, sharesOf(e, x.Count)...)
			for range x.Count {
				order = append(order, x.Kind)
			}
		}
	}
	return kinds, order, nil
}

// sharesOf divides the threads of an entry over its devices; each has the
// entry's memory.
func sharesOf(e configs.DeviceEntry, count int) []device.Share {
	shares := make([]device.Share, count)
	for i := range shares {
		shares[i].MemoryBytes = e.Memory.Bytes
		if e.Threads > 0 {
			shares[i].Threads = max(1, (e.Threads+count-1-i)/count)
		}
	}
	return shares
}

// oneByOne lists the config's devices, an entry for each.
func oneByOne(c configs.Devices) ([]configs.DeviceEntry, error) {
	entries := c.Each
	if len(entries) == 0 {
		entries = []configs.DeviceEntry{{Pos: c.Pos, Use: c.Use, Threads: c.Threads, Memory: c.Memory}}
	}
	var out []configs.DeviceEntry
	for _, e := range entries {
		list, err := device.ParseList(e.Use)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			for _, s := range sharesOf(e, x.Count) {
				out = append(out, configs.DeviceEntry{Pos: e.Pos, Use: x.Kind, Threads: s.Threads, Memory: e.Memory})
			}
		}
	}
	return out, nil
}

// fewer are configs with fewer devices of one kind, those with the most first.
func fewer(c configs.Devices) (list []configs.Devices) {
	all, err := oneByOne(c)
	if err != nil {
		panic("BUG: " + err.Error()) // they were opened
	}
	counts := map[string]int{}
	for _, e := range all {
		counts[e.Use]++
	}
	for gone := 1; gone < len(all); gone++ {
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			if counts[kind] < gone {
				continue
			}
			left, keep := c, counts[kind]-gone
			left.Use, left.Each = "", nil
			for _, e := range all {
				if e.Use == kind {
					keep--
				}
				if e.Use != kind || keep >= 0 {
					left.Each = append(left.Each, e)
				}
			}
			list = append(list, left)
		}
	}
	return list
}

func specsOf(devs []device.Device) []device.Spec {
	specs := make([]device.Spec, len(devs))
	for i, d := range devs {
		specs[i] = d.Spec()
	}
	return specs
}

// idsOf lists devices: "cpu:0, cpu:1".
func idsOf(devs []device.Device) string {
	var ids []string
	for _, d := range devs {
		ids = append(ids, string(d.ID()))
	}
	return strings.Join(ids, ", ")
}
