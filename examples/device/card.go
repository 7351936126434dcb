package device

import (
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/device/streams"
)

// card is a card's memory. It stands for a driver: only the methods below and the kernels
// touch it, and only by offset. It implements [streams.Memory], whose methods are called
// from the goroutines of streams, never for a range that another one is writing.
type card struct{ memory []byte }

// newCard takes all the memory at once, as for a card with nobody else on it.
func newCard(bytes int64) (*card, error) {
	memory, err := host.Mappings{}.Map(bytes)
	return &card{memory}, err
}

// at is a range of the memory, for kernels. Empty values may lie nowhere.
func (c *card) at(off, size int64) []byte {
	if size == 0 {
		return nil
	}
	return c.memory[off : off+size : off+size]
}

// Back makes a range usable. The memory was taken whole.
func (c *card) Back(off, size int64) bool { return true }

// CopyIn returns once src may be overwritten.
func (c *card) CopyIn(off int64, src []byte) error {
	copy(c.at(off, int64(len(src))), src)
	return nil
}

// CopyOut returns once dst is complete.
func (c *card) CopyOut(dst []byte, off int64) error {
	copy(dst, c.at(off, int64(len(dst))))
	return nil
}

// Move copies within the memory, where ranges may overlap: Go's copy allows that.
func (c *card) Move(to, from, size int64) error {
	copy(c.at(to, size), c.at(from, size))
	return nil
}

// CopyFrom copies from another card, since [device.Spec] states PeerCopy.
func (c *card) CopyFrom(to int64, other streams.Memory, from, size int64) error {
	copy(c.at(to, size), other.(*card).at(from, size))
	return nil
}

// Close gives the memory back. Nothing uses it any more.
func (c *card) Close() error { return host.Mappings{}.Unmap(c.memory) }
