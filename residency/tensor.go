package residency

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

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
	identity
	shared *shared
	tenant *account

	version uint64         // of the truth; 0 before the first contents
	truth   int            // device index, or nowhere, onHost, inStore
	copies  []devCopy      // one per device
	host    *hostmem.Block // nil when the host has no bytes
	src     *source        // where to stream from while truth is inStore
	fedDone device.Event   // of the last copy-in from a fed buffer

	discarded bool // nobody needs the contents, until there are others
}

// current reports whether c holds the truth's version of t.
func (t *Tensor) current(c *devCopy) bool {
	return c.buf != nil && c.version != 0 && c.version == t.version
}

// sound reports whether c is current, and not known to have failed.
func (t *Tensor) sound(c *devCopy) bool { return t.current(c) && c.failure() == nil }

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
	for _, i := range t.tenant.used {
		if c := &t.copies[i]; i != d && t.sound(c) {
			return i
		}
	}
	if t.hostCurrent() && t.host.Ready.Err() == nil {
		return onHost
	}
	return nowhere
}

// takeBack makes h, whose contents moved to a device and did not arrive, the truth again.
// It reports false if t has other contents by now. The truth may have been spilled
// meanwhile: other is the block that h replaces, or nil.
func (t *Tensor) takeBack(h *hostmem.Block) (other *hostmem.Block, ok bool) {
	if t.version != h.Version || t.failure() == nil {
		return nil, false
	}
	other, t.host, t.truth = t.host, h, onHost
	return other, true
}

// failure is the reason for which the contents are known not to be right; nil if none is
// known.
func (t *Tensor) failure() error {
	switch {
	case t.onDevice():
		return t.copies[t.truth].failure()
	case t.truth == onHost && t.host != nil:
		return firstFailure(t.host.Ready, t.host.Causes)
	}
	return nil
}

// note counts bytes of t that moved, or need not, on a device.
func (t *Tensor) note(device int, r ledger.Row) {
	r.Value, r.Usage, r.Bytes = t.name, t.usage, t.bytes
	t.tenant.ledger.Add(device, r)
}

// comesBack reports whether the contents left a device that was announced as tight:
// then they may come in wherever they are used next.
func (t *Tensor) comesBack() bool {
	if t.truth != onHost || t.host == nil {
		return false
	}
	i := slices.Index(t.shared.devices, t.host.From)
	return i >= 0 && t.tenant.seal.tight[i]
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
	for _, d := range t.tenant.used {
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
