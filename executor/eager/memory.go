package eager

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
)

// The bounds of what a lane keeps for the next calls.
const (
	keptBytes   = 64 << 10 // the most that a tensor has whose memory is kept
	keptRecords = 1024     // idle ones in a pool
	keptPools   = 4096
	keptPart    = 16 // idle tensors have at most this part of the device's memory
)

// memory is the tensors of a lane, which owns it. The lane's mu guards it.
type memory struct {
	tenant *residency.Tenant
	device int   // its index in the manager's list
	limit  int64 // of kept
	pools  map[string]*pool
	made   int   // records so far
	kept   int64 // bytes of idle tensors that have device memory
	live   int   // tensors with handles or uses, except for scratch and those that failed
	bytes  int64 // of these
	closed bool  // the tenant is closed, and with it all memory is gone

	places map[*record]Location // where the live ones were made: see remember
}

// pool is the tensors of a lane that have the same metadata and usage. Those that are idle
// are used again: an op on small tensors then takes no memory from the device, and the
// program allocates nothing.
type pool struct {
	meta  shape.Meta
	use   device.Usage
	bytes int64
	idle  *record // a list
	count int     // of idle
	gone  bool    // no new tensor is taken from it
}

// record is a tensor of a lane. Its lane's mu guards it. It is used for one tensor after
// the other, each of which is a generation.
type record struct {
	lane   *lane // nil for the results of a refused call
	pool   *pool
	tensor *residency.Tensor // its contents
	gen    uint32
	refs   int32   // of the present generation: by handles
	uses   int32   // by calls that are not launched yet
	made   *work   // of the call that makes the contents; nil if they are there
	failed bool    // making the contents has failed: it does not count as live
	warm   bool    // of an idle record: it has device memory
	next   *record // of an idle record
}

// pool is the pool of tensors of a metadata.
func (m *memory) pool(meta shape.Meta, use device.Usage) *pool {
	var room [64]byte
	key := append(room[:0], byte(meta.DType), byte(use))
	for _, d := range meta.Shape {
		key = binary.AppendUvarint(key, uint64(d))
	}
	p := m.pools[string(key)]
	if p == nil {
		meta.Shape = meta.Shape.Clone()
		p = &pool{meta: meta, use: use, bytes: meta.Bytes()}
		m.pools[string(key)] = p
	}
	return p
}

// full reports whether there are so many pools that they should be dropped.
func (m *memory) full() bool { return len(m.pools) >= keptPools }

// drop forgets all pools and their idle tensors. The others go when they are over.
func (m *memory) drop() {
	for _, p := range m.pools {
		p.gone = true
		for p.idle != nil {
			m.forget(m.pop(p))
		}
	}
	clear(m.pools)
}

// take makes a tensor without handles and contents.
func (m *memory) take(l *lane, p *pool) (*record, error) {
	if m.closed {
		return nil, ErrClosed
	}
	r := p.idle
	if r != nil {
		m.pop(p)
	} else {
		m.made++
		t, err := m.tenant.Declare(residency.Key{Value: "tensor", Microbatch: m.made, Replica: m.device}, p.meta, p.use)
		if err != nil {
			return nil, err
		}
		r = &record{lane: l, pool: p, tensor: t}
	}
	m.count(p, 1)
	return r, nil
}

// count adds tensors of a pool to the live ones. Scratch does not count.
func (m *memory) count(p *pool, tensors int) {
	if p.use != device.Scratch {
		m.live += tensors
		m.bytes += int64(tensors) * p.bytes
	}
}

// pop takes an idle record out of its pool.
func (m *memory) pop(p *pool) *record {
	r := p.idle
	p.idle, r.next = r.next, nil
	p.count--
	if r.warm {
		r.warm = false
		m.kept -= p.bytes
	}
	return r
}

// put ends a tensor that has neither handles nor uses. Small ones keep their memory for
// the next tensor; residency takes it where it is short.
func (m *memory) put(r *record) {
	p := r.pool
	r.gen++
	r.made, r.refs = nil, 0
	delete(m.places, r)
	if r.failed {
		r.failed = false
	} else {
		m.count(p, -1)
	}
	switch {
	case m.closed:
		return
	case p.gone || p.count >= keptRecords:
		m.forget(r)
		return
	case p.bytes <= keptBytes && m.kept+p.bytes <= m.limit:
		m.tenant.Discard(r.tensor)
		r.warm = true
		m.kept += p.bytes
	default:
		free(m.tenant.Drop(r.tensor))
	}
	r.next, p.idle = p.idle, r
	p.count++
}

// forget gives up a record.
func (m *memory) forget(r *record) { free(m.tenant.Forget(r.tensor)) }

// free checks the error of freeing a tensor that no call uses.
func free(err error) {
	if err != nil && !errors.Is(err, device.ErrDeleted) {
		panic(fmt.Sprintf("BUG: freeing a tensor: %v", err))
	}
}

// use adds a call's use of a handle, which it does not consume. It reports false, and changes
// nothing, if the handle was consumed.
func (x Tensor) use() bool {
	r := x.rec
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	if !x.live() {
		return false
	}
	r.uses++
	return true
}

// maker is the call that makes the contents; nil if they are there.
func (r *record) maker() *work {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	return r.made
}

// begin records the call that makes the contents.
func (r *record) begin(o *work) {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	r.made = o
}

// end records that the contents of a generation are there, or that making them has failed: then they
// take no memory.
func (r *record) end(gen uint32, err error) {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	r.endLocked(gen, err)
}

// endLocked is end with the lane's mu.
func (r *record) endLocked(gen uint32, err error) {
	switch {
	case r.gen != gen || r.lane.memory.closed:
	case err == nil:
		r.made = nil
	default:
		m := &r.lane.memory
		free(m.tenant.Drop(r.tensor))
		r.failed = true
		m.count(r.pool, -1)
	}
}

// unuse ends a call's use.
func (r *record) unuse() {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	r.unuseLocked()
}

// unuseLocked is unuse with the lane's mu.
func (r *record) unuseLocked() {
	r.uses--
	if r.uses < 0 {
		panic("BUG: a tensor's use ended twice")
	}
	if r.uses == 0 && r.refs == 0 {
		r.lane.memory.put(r)
	}
}

// remember records the place where tensors were made. Those of refused calls have none.
func remember(at Location, made ...Tensor) {
	for _, x := range made {
		if !x.refused() {
			x.remember(at)
		}
	}
}

func (x Tensor) remember(at Location) {
	l := x.rec.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory.places == nil {
		l.memory.places = map[*record]Location{}
	}
	l.memory.places[x.rec] = at
}

// leave closes the lanes' books, since the tenant is about to close, which frees all memory.
// Its error counts the tensors that still have handles.
func (c *Context) leave() error {
	tensors, bytes := 0, int64(0)
	held := map[graph.Pos]int{}
	for _, l := range c.lanes {
		l.mu.Lock()
		m := &l.memory
		m.closed = true
		tensors, bytes = tensors+m.live, bytes+m.bytes
		for r, at := range m.places {
			if !r.failed {
				held[at.Pos()]++
			}
		}
		l.mu.Unlock()
	}
	if tensors == 0 {
		return nil
	}
	s := "s are"
	if tensors == 1 {
		s = " is"
	}
	where := "ContextOptions.Places has Close name the lines that made them"
	if c.places {
		where = "made at " + placesText(held)
	}
	return fmt.Errorf("eager context: %d tensor%s still held, with %d bytes: consume or Release every handle; %s", tensors, s, bytes, where)
}

// mostPlaces is the most places that an error names.
const mostPlaces = 5

// placesText lists places by the number of tensors made there, the most first.
func placesText(held map[graph.Pos]int) string {
	order := slices.SortedFunc(maps.Keys(held), func(a, b graph.Pos) int {
		return cmp.Or(held[b]-held[a], cmp.Compare(a.File, b.File), a.Line-b.Line)
	})
	var list []string
	for i, p := range order {
		if i == mostPlaces {
			list = append(list, fmt.Sprintf("%d more places", len(order)-i))
			break
		}
		list = append(list, fmt.Sprintf("%v (%d)", p, held[p]))
	}
	return strings.Join(list, ", ")
}
