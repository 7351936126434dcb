package memory

import "github.com/berth-ml/berth/engine/device"

// Block is a range of a space. Its owner reads Off and Size until it gives the
// block back, and must not touch it afterwards.
type Block struct {
	Off, Size int64 // bytes; multiples of the space's alignment
	Owner     any   // the taker's own data; nil until it writes one

	free       bool
	uses       device.Fence // of a free block: its bytes may be written after these
	prev, next *Block       // neighbours by offset
	run        *run         // of a run's first and last block

	room [4]device.Event // for uses: a compute queue and three copy queues
}

// end is the offset after the block.
func (b *Block) end() int64 { return b.Off + b.Size }

// run is neighbouring free blocks, as many as there are.
type run struct{ first, last *Block }

// size is the bytes of all its blocks.
func (r *run) size() int64 { return r.last.end() - r.first.Off }
