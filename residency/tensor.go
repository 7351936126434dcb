package residency

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// Key identifies a tensor instance. Net is empty for variables, which all graphs
// of a tenant share. Tenant is the name of the tenant. Range is the part of Value that
// the tensor has, "[0:65536]"; empty for the whole.
type Key struct {
	Tenant, Net, Value, Range string
	Microbatch, Replica       int
}

// String is "tenant:net/value#2@1" for microbatch 2 of replica 1. It leaves out
// names that are empty, and numbers that are zero.
func (k Key) String() string {
	s := k.Value + k.Range
	if k.Net != "" {
		s = k.Net + "/" + s
	}
	if k.Tenant != "" {
		s = k.Tenant + ":" + s
	}
	if k.Microbatch != 0 {
		s += "#" + strconv.Itoa(k.Microbatch)
	}
	if k.Replica != 0 {
		s += "@" + strconv.Itoa(k.Replica)
	}
	return s
}

// Where a truth can be besides a device, whose index is 0 or more.
const (
	nowhere = -1 - iota
	onHost
	inStore
)

// shared is the part of a manager that its tensors refer to.
type shared struct {
	mu      sync.Mutex // guards all tensors' records and the manager's own
	devices []string   // device IDs
}

// where names a truth, for people.
func (s *shared) where(truth int) string {
	switch truth {
	case nowhere:
		return "nowhere"
	case onHost:
		return "host"
	case inStore:
		return "store"
	}
	return s.devices[truth]
}

// Tensor is the record of one tensor: its metadata and where its contents are.
// It belongs to one Tenant, whose Manager moves them; Drop frees its memory. Its
// methods are safe for concurrent use.
type Tensor struct {
	shared *shared
	tenant *tenant
	key    Key
	name   string
	meta   shape.Meta
	usage  device.Usage
	bytes  int64

	version uint64         // of the truth; 0 before the first contents
	truth   int            // device index, or nowhere, onHost, inStore
	copies  []devCopy      // one per device
	host    *hostmem.Block // nil when the host has no bytes
	src     *source        // where to stream from while truth is inStore
	fedDone device.Event   // of the last copy-in from a fed buffer
}

// current reports whether c holds the truth's version of t.
func (t *Tensor) current(c *devCopy) bool {
	return c.buf != nil && c.version != 0 && c.version == t.version
}

// hostCurrent reports whether the host's bytes are the truth's version.
func (t *Tensor) hostCurrent() bool {
	return t.host != nil && t.truth != nowhere && t.host.Version == t.version
}

// onDevice reports whether the truth is on a device, copies[truth].
func (t *Tensor) onDevice() bool { return t.truth >= 0 }

// beingWritten reports whether a lease writes the truth.
func (t *Tensor) beingWritten() bool { return t.onDevice() && t.copies[t.truth].writing }

// otherTruth finds current contents of t elsewhere than on device d; nowhere if
// there are none. Devices come before the host: from there, nothing needs to be
// copied in.
func (t *Tensor) otherTruth(d int) int {
	for i := range t.copies {
		if c := &t.copies[i]; i != d && t.current(c) && c.failure() == nil {
			return i
		}
	}
	if t.hostCurrent() && t.host.Ready.Err() == nil {
		return onHost
	}
	return nowhere
}

// takeBack makes h, whose contents moved to device d, the truth again, since they did
// not arrive. It reports false if t has other contents by now.
func (t *Tensor) takeBack(h *hostmem.Block, d int) bool {
	if t.version != h.Version || t.truth != d || t.host != nil {
		return false
	}
	t.host, t.truth = h, onHost
	return true
}

// note counts bytes of t that moved, or need not, on a device.
func (t *Tensor) note(device int, r ledger.Row) {
	r.Value, r.Usage, r.Bytes = t.name, t.usage, t.bytes
	t.tenant.ledger.Add(device, r)
}

// lost is the error of a tensor whose only contents were to be spilled, if that has
// failed.
func (t *Tensor) lost() error {
	if t.truth != onHost || t.host == nil {
		return nil
	}
	if err := t.host.Ready.Err(); err != nil {
		return &CopyError{fmt.Errorf("%s: %w: its spill from %s failed: %w", t.name, ErrLost, t.host.From, err)}
	}
	return nil
}

// Key identifies the tensor.
func (t *Tensor) Key() Key { return t.key }

// Meta is its element type and shape.
func (t *Tensor) Meta() shape.Meta { return t.meta }

// Usage is the usage that its memory counts as.
func (t *Tensor) Usage() device.Usage { return t.usage }

// Name is its key as text.
func (t *Tensor) Name() string { return t.name }

// Version grows with every Fill, Feed and write.
func (t *Tensor) Version() uint64 {
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	return t.version
}

// Location names the devices with the contents, for people: "cpu:0", "cpu:1,
// clean on host", "nowhere".
func (t *Tensor) Location() string {
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	var clean []string
	for d := range t.copies {
		if d != t.truth && t.current(&t.copies[d]) {
			clean = append(clean, t.shared.where(d))
		}
	}
	if t.truth != onHost && t.hostCurrent() {
		clean = append(clean, "host")
	}
	s := t.shared.where(t.truth)
	if len(clean) > 0 {
		s += ", clean on " + strings.Join(clean, ", ")
	}
	return s
}

// Streams reports whether the contents are read from a store whenever a device
// needs them.
func (t *Tensor) Streams() bool {
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	return t.truth == inStore
}

// String is the name with metadata and usage.
func (t *Tensor) String() string { return fmt.Sprintf("%s %v (%v)", t.name, t.meta, t.usage) }
