package memory

// Move is the move of a taken block to free bytes.
type Move struct {
	Block *Block
	To    int64 // offset
}

// planner finds moves of blocks in a space. Its memory is reused.
type planner struct {
	edge    *Block // the space's
	runs    *shelf // the space's
	list    []Move // the answer
	windows []window
	holes   []hole
}

// window is neighbouring blocks, with their free and their taken bytes.
type window struct {
	first, last *Block
	free, taken int64
}

// add adds the block after the last.
func (w *window) add(b *Block) {
	if w.last = b; b.free {
		w.free += b.Size
	} else {
		w.taken += b.Size
	}
}

// shrink takes the first block off.
func (w *window) shrink() {
	if b := w.first; b.free {
		w.free -= b.Size
	} else {
		w.taken -= b.Size
	}
	w.first = w.first.next
}

// hole is free bytes to which blocks move.
type hole struct{ off, size int64 }
