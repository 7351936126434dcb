package devicetest

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// poisonByte fills memory: numbers are then NaN, and indices out of range.
const poisonByte = 0xff

// Poison wraps a device so that Alloc and AllocHost never give zeroed memory.
// Work that takes undefined contents for zeros then fails or gives NaN.
func Poison(d device.Device) device.Device { return &poisoned{d} }

// poisoned is a device whose memory is never zeroed.
type poisoned struct{ device.Device }

// Unwrap implements device.Wrapper.
func (d *poisoned) Unwrap() device.Device { return d.Device }

// AllocHost reserves host memory full of poison.
func (d *poisoned) AllocHost(n int64) (device.HostBuffer, error) {
	h, err := d.Device.AllocHost(n)
	if err == nil {
		fill(h.Bytes())
	}
	return h, err
}

// NewStream starts a queue whose Alloc gives poison.
func (d *poisoned) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &poisonedStream{s, map[int64]*poison{}}, nil
}

// poisonedStream fills memory with poison in the order of its queue.
type poisonedStream struct {
	device.Stream
	poison map[int64]*poison // by size
}

// Alloc takes memory full of poison.
func (s *poisonedStream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	b, err := s.Stream.Alloc(m, use)
	if err != nil {
		return nil, err
	}
	p := s.poison[m.Bytes()]
	if p == nil {
		p = &poison{make([]byte, m.Bytes())}
		fill(p.data)
		s.poison[m.Bytes()] = p
	}
	return b, s.CopyIn(b, p)
}

// DelayRead implements device.Delayer, if the stream does.
func (s *poisonedStream) DelayRead(b device.Buffer, e device.Event) {
	s.Stream.(device.Delayer).DelayRead(b, e)
}

// DelayWrite implements device.Delayer, if the stream does.
func (s *poisonedStream) DelayWrite(b device.Buffer, e device.Event) {
	s.Stream.(device.Delayer).DelayWrite(b, e)
}

// Compact implements device.Compactor, if the stream does.
func (s *poisonedStream) Compact(bytes int64, m device.Mover) (bool, error) {
	if c, ok := s.Stream.(device.Compactor); ok {
		return c.Compact(bytes, m)
	}
	return false, nil
}

// poison is host memory that nobody changes.
type poison struct{ data []byte }

// Bytes is the memory.
func (p *poison) Bytes() []byte { return p.data }

// Free does nothing.
func (p *poison) Free() error { return nil }

func fill(b []byte) {
	for i := range b {
		b[i] = poisonByte
	}
}
