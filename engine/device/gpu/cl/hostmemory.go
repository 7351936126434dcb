package cl

import (
	"errors"
	"sync"

	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/device/streams"
)

// hostMemory is the host memory of a device. A device whose memory is the host's copies
// from any as fast.
func hostMemory(c *context) streams.HostMemory {
	if c.of.unified {
		return host.Mappings{}
	}
	return &pinnedMemory{context: c, objects: map[*byte]pin{}}
}

// pinnedMemory is host memory that the driver keeps in place, so that the device copies
// from and to it without another copy in between. Each mapping is an object of the
// driver, for as long as it is there.
type pinnedMemory struct {
	context *context

	mu      sync.Mutex
	objects map[*byte]pin // by the first byte of a mapping; none where pinning failed
}

// pin is the object of a mapping, and where the driver has mapped it: the same place,
// unless the driver has made a copy.
type pin struct{ object, mapped uintptr }

// Flags of objects, and of their mapping.
const (
	useHostMemory = 1 << 3
	mapReadWrite  = 1<<0 | 1<<1
)

// Map implements [streams.HostMemory]. Memory that the driver does not pin serves all
// the same.
func (m *pinnedMemory) Map(n int64) ([]byte, error) {
	mem, err := host.Mappings{}.Map(n)
	if err != nil {
		return nil, err
	}
	p, err := m.pin(mem)
	if err == nil {
		m.mu.Lock()
		m.objects[&mem[0]] = p
		m.mu.Unlock()
	}
	return mem, nil
}

// pin makes an object of a mapping.
func (m *pinnedMemory) pin(mem []byte) (p pin, err error) {
	l, err := m.context.lane()
	if err != nil {
		return p, err
	}
	defer m.context.giveBack(l)
	size := uintptr(len(mem))
	p.object, err = l.create(createBuffer, m.context.handle, readWrite|useHostMemory, size, at(l.caller, &mem[0]))
	if err != nil {
		return p, err
	}
	const wait = 1
	p.mapped, err = l.create(enqueueMapBuffer, l.queue, p.object, wait, mapReadWrite, 0, size, 0, 0, 0)
	if err != nil {
		return p, errors.Join(err, l.call(releaseMemObject, p.object))
	}
	return p, nil
}

// Unmap implements [streams.HostMemory].
func (m *pinnedMemory) Unmap(mapped []byte) error {
	m.mu.Lock()
	p, pinned := m.objects[&mapped[0]]
	delete(m.objects, &mapped[0])
	m.mu.Unlock()
	var err error
	if pinned {
		err = m.unpin(p)
	}
	return errors.Join(err, host.Mappings{}.Unmap(mapped))
}

// unpin gives the object of a mapping back.
func (m *pinnedMemory) unpin(p pin) error {
	l, err := m.context.lane()
	if err != nil {
		return err
	}
	defer m.context.giveBack(l)
	err = l.call(enqueueUnmapMemObject, l.queue, p.object, p.mapped, 0, 0, 0)
	if err == nil {
		err = l.call(finish, l.queue)
	}
	return errors.Join(err, l.call(releaseMemObject, p.object))
}
