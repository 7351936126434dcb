package residency

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/copies"
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

// The values of Tensor.truth that are no device's index, which is 0 or more.
const (
	nowhere = -1 - iota
	onHost
	inStore
)

// Tensor is the record of one tensor: its metadata and where its contents are.
// It belongs to one Tenant, whose Manager moves them; Drop frees its memory. Its
// methods are safe for concurrent use.
type Tensor struct {
	key    Key
	name   string // the key as text
	meta   shape.Meta
	usage  device.Usage
	bytes  int64
	tenant *Tenant

	version uint64         // of the truth; 0 before the first contents
	truth   int            // device index, or nowhere, onHost, inStore
	copies  []devCopy      // one per device
	host    *hostmem.Block // nil when the host has no bytes
	src     *source        // where to stream from while truth is inStore
	fedDone device.Event   // of the last copy-in from a fed buffer

	discarded bool // nobody needs the contents, until there are others
}

// Key identifies the tensor.
func (t *Tensor) Key() Key { return t.key }

// Meta is its element type and shape.
func (t *Tensor) Meta() shape.Meta { return t.meta }

// Usage is the usage that its memory counts as.
func (t *Tensor) Usage() device.Usage { return t.usage }

// Name is its key as text.
func (t *Tensor) Name() string { return t.name }

// String is the name with metadata and usage.
func (t *Tensor) String() string { return fmt.Sprintf("%s %v (%v)", t.name, t.meta, t.usage) }

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

// where names a truth, for people.
func (m *Manager) where(truth int) string {
	switch truth {
	case nowhere:
		return "nowhere"
	case onHost:
		return "host"
	case inStore:
		return "store"
	}
	return m.devs[truth].id
}

// beingWritten reports whether a lease writes the truth.
func (t *Tensor) beingWritten() bool { return t.onDevice() && t.copies[t.truth].writing }

// renew gives t other contents, at a truth. All copies are stale from then on.
func (t *Tensor) renew(truth int) {
	t.version++
	t.truth, t.src, t.discarded = truth, nil, false
}

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
		return t.host.Failure()
	}
	return nil
}

// note counts bytes of t that moved, or need not, on a device.
func (t *Tensor) note(device int, r ledger.Row) {
	r.Value, r.Usage, r.Bytes = t.name, t.usage, t.bytes
	t.ledger().Add(device, r)
	t.tenant.on[device].moved.add(r.Kind, r.Bytes)
	t.tenant.devs[device].moved.add(r.Kind, r.Bytes)
}

// comesBack reports whether the contents left a device that was announced as tight:
// then they may come in wherever they are used next.
func (t *Tensor) comesBack() bool {
	if t.truth != onHost || t.host == nil {
		return false
	}
	for i := range t.tenant.devs {
		if t.tenant.devs[i].id == t.host.From {
			return t.tenant.seal.tight[i]
		}
	}
	return false
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
	t.tenant.mu.Lock()
	defer t.tenant.mu.Unlock()
	return t.version
}

// Location names the devices with the contents, for people: "cpu:0", "cpu:1,
// clean on host", "nowhere".
func (t *Tensor) Location() string {
	t.tenant.mu.Lock()
	defer t.tenant.mu.Unlock()
	var clean []string
	for _, d := range t.tenant.used {
		if d != t.truth && t.current(&t.copies[d]) {
			clean = append(clean, t.tenant.where(d))
		}
	}
	if t.truth != onHost && t.hostCurrent() {
		clean = append(clean, "host")
	}
	s := t.tenant.where(t.truth)
	if len(clean) > 0 {
		s += ", clean on " + strings.Join(clean, ", ")
	}
	return s
}

// Streams reports whether the contents are read from a store whenever a device
// needs them.
func (t *Tensor) Streams() bool {
	t.tenant.mu.Lock()
	defer t.tenant.mu.Unlock()
	return t.truth == inStore
}

// Drop discards the contents: every copy and the host's bytes are freed. The
// record stays, without contents. It fails with ErrLeased for a leased tensor.
func (m *Manager) Drop(t *Tensor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(t)
}

// drop is Drop with the lock held.
func (m *Manager) drop(t *Tensor) error {
	for _, d := range t.tenant.used {
		if t.copies[d].leased > 0 {
			return fmt.Errorf("drop %s: %w on %s: release it first", t.name, ErrLeased, m.devs[d].id)
		}
	}
	for _, i := range t.tenant.used {
		m.devs[i].free(t, "dropped")
	}
	m.dropHost(t)
	t.renew(nowhere)
	return nil
}

// Discard tells that nobody needs the contents of tensors that are not leased. Their memory
// on a device stays for the next task that writes them, until there is a better use
// for it. Nothing is spilled for them.
func (m *Manager) Discard(ts ...*Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range ts {
		if !t.onDevice() || t.failure() != nil {
			_ = m.drop(t) // fails for a leased tensor, which then keeps its contents
			continue
		}
		t.discarded = true
		m.dropHost(t)
		m.devs[t.truth].rank(t)
	}
}

// Has reports whether a device, by index, has a copy of t.
func (m *Manager) Has(device int, t *Tensor) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.devs[device].copy(t).buf != nil
}

// DropCopy frees a device's copy of t, unless it is the truth, leased, or of a base that is in use.
func (m *Manager) DropCopy(device int, t *Tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := &m.devs[device]; t.truth != device && !d.copy(t).locked() {
		d.free(t, "dropped")
		m.rankAll(t)
	}
}

// Confine frees the copies of a tensor on other devices than those of the needs, which are all of it. The first of these becomes
// the one that has it. It does nothing, and reports false, unless each has the contents, and they have arrived.
func (m *Manager) Confine(needs []Need) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := needs[0].Tensor
	on := func(d int) bool { return slices.ContainsFunc(needs, func(n Need) bool { return n.Device == d }) }
	for _, n := range needs {
		if c := n.copy(); !c.Ready.Done() || !t.sound(c) { // in this order: it may fail meanwhile
			return false
		}
	}
	for _, d := range t.tenant.used {
		if !on(d) && m.devs[d].copy(t).locked() {
			return false
		}
	}
	if t.onDevice() && !on(t.truth) {
		t.truth = needs[0].Device
	}
	for _, d := range t.tenant.used {
		if !on(d) {
			m.devs[d].free(t, "moved")
		}
	}
	m.rankAll(t)
	return true
}

// dropHost drops the host's bytes of t, if there are any.
func (m *Manager) dropHost(t *Tensor) {
	if h := t.host; h != nil {
		t.host = nil
		m.host.Drop(h) // which makes it the truth again if the copy of a moved tensor has failed
		m.rankAll(t)
	}
}

// rankAll ranks a tensor's copies on all devices.
func (m *Manager) rankAll(t *Tensor) {
	for _, i := range t.tenant.used {
		m.devs[i].rank(t)
	}
}

// freeStale frees t's copies that are stale and not leased.
func (m *Manager) freeStale(t *Tensor, cause string) {
	for _, i := range t.tenant.used {
		d := &m.devs[i]
		if c := d.copy(t); c.leased == 0 && !t.current(c) {
			d.free(t, cause)
		}
	}
}

// devCopy is a tensor's copy on one device, and belongs to the tensor. It has a buffer while
// its contents are current, and while a lease contains it.
type devCopy struct {
	buf           device.Buffer // nil when there is none
	version       uint64        // of its contents; 0 when undefined
	copies.Origin               // of its contents
	readers       device.Fence  // reads since the last write, copy or move
	leased        int           // number of leases that contain it
	pinned        bool          // of a base that is in use: it stays
	writing       bool          // one of these writes
	used          uint64        // the manager's clock at its last use
	slot          int           // index in the device's residents, while there is a buffer
	wanted        bool          // by the attempt under way
	want          int           // index among that attempt's wants
	brought       uint64        // the call of Acquire that last brought contents here
	object        int           // from 1: its number in the known order of uses; 0: it is not in it
	other         int           // from 1: its number among the ranked copies that no order knows; 0: it has none
}

// lastUses is the events after which the buffer may be overwritten: its readers,
// each of which has waited for the last write and the move since, or those two if
// there are none.
func (c *devCopy) lastUses() []device.Event {
	if len(c.readers) == 0 {
		c.addMakers()
	}
	return c.readers
}

// readElsewhere adds a reader on another device's stream. If that device is given up,
// it counts as ended before what it waited for.
func (c *devCopy) readElsewhere(done device.Event) {
	c.addMakers()
	c.readers.Add(done)
}

// addMakers adds the last write and the move since to the readers.
func (c *devCopy) addMakers() {
	c.readers.Add(c.Ready)
	c.readers.Add(c.Moved)
}

// write records that c has contents of a version once the task done has ended well.
// Should it fail, those from before are left, if there are any. With the zero Event nothing
// was queued: the uses before it still count.
func (c *devCopy) write(version uint64, done device.Event) {
	c.Written(done, c.version == 0)
	c.version = version
	if done.Queue != nil {
		c.readers = c.readers[:0]
	}
}

// arrive records that c has a copy of contents of a version once done has ended well.
func (c *devCopy) arrive(version uint64, from *copies.Origin, done device.Event) {
	c.Copied(from, done)
	c.version, c.readers = version, c.readers[:0]
}

// clear forgets the contents and all uses.
func (c *devCopy) clear() {
	c.Clear()
	c.version, c.other, c.readers = 0, 0, c.readers[:0]
}

// locked reports whether the copy must stay: it is leased, wanted or pinned.
func (c *devCopy) locked() bool { return c.leased > 0 || c.wanted || c.pinned }

// failure is the reason for which the contents are known not to be right; nil if
// none is known.
func (c *devCopy) failure() error {
	if c.version == 0 {
		return nil
	}
	return c.Failure()
}
