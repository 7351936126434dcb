package residency

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Mode is how a task uses a tensor.
type Mode uint8

// The modes. Write leaves the old contents undefined; ReadWrite changes them in
// place.
const (
	Read Mode = 1 << iota
	Write
	ReadWrite = Read | Write
)

func (m Mode) reads() bool { return m&Read != 0 }

func (m Mode) writes() bool { return m&Write != 0 }

// String is "read", "write" or "read-write".
func (m Mode) String() string {
	switch m {
	case Read:
		return "read"
	case Write:
		return "write"
	case ReadWrite:
		return "read-write"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Need is a tensor that a task needs on a device. The same tensor may be needed
// twice on one device: both get the same buffer, and the modes add up.
type Need struct {
	Tensor *Tensor
	Device int // index in the list given to New
	Mode   Mode
}

// copy is the tensor's copy on the device.
func (n *Need) copy() *devCopy { return &n.Tensor.copies[n.Device] }

// Lease keeps a task's tensors on its device, from Acquire to Release. The
// zero Lease is ready for use, and it is reused without allocating. It belongs
// to one goroutine.
type Lease struct {
	Buffers []device.Buffer // per need, valid until Release
	Scratch device.Buffer   // nil if no scratch was asked for; valid until Release
	// Ready has the event, per need, with which contents are there that the task
	// writes, for Release. Acquire sets it to zero events: the end of the task.
	Ready []device.Event

	tenant  *account
	held    bool
	stream  device.Stream
	needs   []Need
	scratch shape.Meta     // of Scratch
	done    []device.Event // the last use of Scratch
}

// uses reports whether the lease has something on a device.
func (l *Lease) uses(device int) bool {
	return slices.ContainsFunc(l.needs, func(n Need) bool { return n.Device == device })
}
