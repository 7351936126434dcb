package residency

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Key identifies a tensor instance. Net is empty for variables, which all
// graphs share.
type Key struct {
	Net, Value          string
	Microbatch, Replica int
}

// String is "net/value#2@1": microbatch 2 of replica 1, parts that are zero
// left out.
func (k Key) String() string {
	s := k.Value
	if k.Net != "" {
		s = k.Net + "/" + s
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

// Tensor is the record of one tensor: what it is and where its contents are.
// It belongs to one Manager, which moves them; Drop frees what it holds. Its
// methods are safe for concurrent use.
type Tensor struct {
	m     *Manager
	key   Key
	name  string
	meta  shape.Meta
	usage device.Usage
	bytes int64
	sort  int // which pooled buffers will do

	version uint64       // of the truth; 0 before the first contents
	truth   int          // device index, or nowhere, onHost, inStore
	copies  []devCopy    // one per device
	host    *hostMem     // nil when the host holds nothing
	src     *source      // where to stream from while truth is inStore
	fedDone device.Event // of the last copy-in from a fed buffer
}

// devCopy is a tensor's copy on one device.
type devCopy struct {
	buf     device.Buffer // nil when there is none
	version uint64        // of its contents; 0 when undefined
	ready   device.Event  // of the last write or copy into it
	readers fence         // reads since, or what used the buffer before, one event per stream
	leased  int           // leases held
	writing bool          // one of them writes
	used    uint64        // the clock at its last use
	slot    int           // index in the device's list of residents
	wanted  uint64        // the attempt that wants it
	want    int           // its index among the attempt's wants
	moved   uint64        // the Acquire that last moved contents here
	uses    []int         // positions in the known order of uses
}

// current reports whether c holds the truth's version of t.
func (t *Tensor) current(c *devCopy) bool {
	return c.buf != nil && c.version != 0 && c.version == t.version
}

// busy reports whether queued work still uses contents that c had. A buffer
// that never had any waits for its former uses in stream order.
func (c *devCopy) busy() bool {
	return c.buf != nil && c.version != 0 && !(c.ready.Done() && c.readers.done())
}

// hostCurrent reports whether the host's bytes are the truth's version.
func (t *Tensor) hostCurrent() bool {
	return t.host != nil && t.truth != nowhere && t.host.version == t.version
}

// Key identifies the tensor.
func (t *Tensor) Key() Key { return t.key }

// Meta is its element type and shape.
func (t *Tensor) Meta() shape.Meta { return t.meta }

// Usage is what its memory is for.
func (t *Tensor) Usage() device.Usage { return t.usage }

// Name is its key as text.
func (t *Tensor) Name() string { return t.name }

// Version counts its contents: it grows with every Fill, Feed and write.
func (t *Tensor) Version() uint64 {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.version
}

// Location says for people where the contents are: "cpu:0", "cpu:1, clean on
// host", "nowhere".
func (t *Tensor) Location() string {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	var clean []string
	for d := range t.copies {
		if d != t.truth && t.current(&t.copies[d]) {
			clean = append(clean, t.m.placeName(d))
		}
	}
	if t.truth != onHost && t.hostCurrent() {
		clean = append(clean, "host")
	}
	s := t.m.placeName(t.truth)
	if len(clean) > 0 {
		s += ", clean on " + strings.Join(clean, ", ")
	}
	return s
}

// String is the name with metadata and usage.
func (t *Tensor) String() string { return fmt.Sprintf("%s %v (%v)", t.name, t.meta, t.usage) }
