package session

import (
	"cmp"
	"fmt"
	"os"

	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// hostMemory bounds the host memory of a run in a folder as the config asks.
func (s *Session) hostMemory(dir string) residency.ManagerOptions {
	c := s.Config.Devices
	o := residency.ManagerOptions{Name: "the run in " + dir}
	if c.HostMemory == 0 {
		return o
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = os.TempDir() // of weights from a file
	}
	o.HostBytes, o.SpillDir = c.HostMemory/int64(max(1, s.parts)), cmp.Or(c.SpillDir, dir)
	return o
}

// hostBytes is the most bytes that a run's tensors take on the host at once: its state
// before the first step, or those that a step's devices have no room for.
func (s *Session) hostBytes() int64 { return max(s.StateBytes(), s.leaving()) }

// HostBytes is the most host memory that a training takes beside its data: for batches, a save, and tensors
// that are on no device.
func (s *Session) HostBytes() int64 {
	return s.Batches + s.SaveBound().Takes(s.Plan.Graph.Vars) + s.hostBytes()
}

// leaving is the bytes on the host of tensors that leave their device for lack of room.
func (s *Session) leaving() (bytes int64) {
	for i := range s.Plan.Memory {
		if f := &s.Plan.Memory[i]; f.Tight() && s.Here(f.Device) {
			bytes += f.Host
		}
	}
	return bytes
}

// LargestOf is the bytes of a graph's largest value.
func LargestOf(g *graph.Graph) (bytes int64) {
	for _, v := range g.Values {
		bytes = max(bytes, v.Meta.Bytes())
	}
	return bytes
}

// SaveBound is the host memory that a save may take.
func (s *Session) SaveBound() saver.Bound {
	c, memory := s.Config.Checkpoint, s.Config.Devices.HostMemory
	if memory == 0 && s.held.crew != nil {
		memory = s.held.crew.Part().Free
	}
	return saver.BoundOf(c.Staging, c.Staging == configs.StageWhole, s.StateBytes(), memory)
}

// StateBytes is the size of a checkpoint's tensors.
func (s *Session) StateBytes() (n int64) {
	for _, v := range saver.Kept(s.Plan.Graph.Vars) {
		n += v.Meta.Bytes()
	}
	return n
}

// CheckHostMemory fails if batches and saves exceed the bound on host memory. Without a
// bound, it fails if the tensors that have no room on their device do not fit into
// free host memory. messages are the bytes of those between ranks. It sets Batches and Images.
func (s *Session) CheckHostMemory(data *datasets.Dataset, messages int64) error {
	c := s.Config
	s.Batches = messages + feed.HostBytes(data.Train, s.Sizes.Batch, 1)
	evaluations := int64(0) // the most that one takes: they come one after the other
	for _, j := range []*answer.Judge{s.Judge, s.Tester} {
		if j != nil && j.Part != nil {
			evaluations = max(evaluations, feed.HostBytes(j.Part, s.Sizes.evaluated(j.Part), len(s.Plan.Devices()))+j.HostBytes())
		}
	}
	s.Batches += evaluations
	if c.Devices.HostMemory == 0 {
		free, err := s.available()
		if err != nil {
			return nil // the system does not say
		}
		return s.spillShortage(s.Batches+s.SaveBound().Takes(s.Plan.Graph.Vars), free)
	}
	s.Images = data.PictureBytes()
	takes := s.Batches + s.SaveBound().Held() + s.Images
	if takes <= c.Devices.HostMemory {
		return nil
	}
	take, most := units.TwoBytes(takes, c.Devices.HostMemory)
	cure, what := "", "batches and saves"
	if s.Images > 0 {
		what = fmt.Sprintf("batches, saves and %s of decoded images", units.Bytes(s.Images))
	}
	if asked := c.Checkpoint.Staging; asked > 0 {
		cure = fmt.Sprintf(", or a checkpoint.staging below %s", units.Bytes(asked))
	}
	return configs.At(c.Where("devices.host_memory"), fmt.Errorf("%w: %s need %s, but the limit on host memory is %s: raise the limit (--host-memory), or use smaller batches%s", residency.ErrHostMemory, what, take, most, cure))
}

// hostNote says how a bound on host memory meets the plan; "" if there is none, or
// no tensor leaves its device.
func (s *Session) hostNote() string {
	leaves, most := s.leaving(), s.Config.Devices.HostMemory
	if most == 0 || leaves == 0 {
		return ""
	}
	others := ""
	if s.Batches > 0 { // a training
		others = fmt.Sprintf(", and batches and saves up to %s", units.Bytes(s.Batches+s.SaveBound().Takes(s.Plan.Graph.Vars)))
	}
	return fmt.Sprintf("tensors that leave devices take %s at once%s: they share %s of host memory; a file takes tensors beyond it", units.Bytes(leaves), others, units.Bytes(most))
}

// goHeap is the memory in bytes that the program itself takes.
const goHeap = 32 << 20

// spillShortage refuses a plan whose tensors leave devices without room, where the
// free memory is too little for them, for takes bytes of batches and saves, and for
// the devices that use the same memory.
func (s *Session) spillShortage(takes, free int64) error {
	var devices, spills int64
	specs := s.Planner.Specs
	for i := range s.Plan.Memory {
		f := &s.Plan.Memory[i]
		if !s.Here(f.Device) {
			continue
		}
		spec := &specs[f.Device]
		if spec.HostVisible && spec.CopyOut { // a device that gives nothing back has no memory
			devices += min(f.Peak, cmp.Or(f.Limit, f.Peak))
		}
		if f.Tight() && spec.CopyOut {
			spills += f.Host
		}
	}
	if takes += goHeap; spills == 0 || devices+spills+takes <= free {
		return nil
	}
	need, have := units.TwoBytes(devices+spills+takes, free)
	return fmt.Errorf("%w: %s of memory are free, but %s are needed: %s for devices, %s for tensors that do not fit on them, and %s for batches, saves and the program itself; let tensors go to a file (--host-memory), or use smaller batches or a smaller model",
		residency.ErrHostMemory, have, need, units.Bytes(devices), units.Bytes(spills), units.Bytes(takes))
}

// Room is the bytes that parameters can take: on the devices, and on the host,
// where those go that a device has no room for. 0 is no limit.
func (s *Session) Room() int64 {
	if s.Config.Devices.HostMemory > 0 {
		return 0 // the rest goes to a file
	}
	room := partition.Room(s.Planner.Specs)
	free, err := s.available()
	if room == 0 || err != nil {
		return room
	}
	return room + max(0, free-hostVisible(s.Planner.Specs))
}

// hostVisible is the memory of devices that is the host's.
func hostVisible(specs []device.Spec) (bytes int64) {
	for _, d := range specs {
		if d.HostVisible {
			bytes += d.MemoryBytes
		}
	}
	return bytes
}
