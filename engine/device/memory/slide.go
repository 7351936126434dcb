package memory

// slidable finds neighbouring blocks whose taken ones can slide together, so that size bytes
// are free behind them. Of several such windows it picks the one with the fewest bytes to slide.
func (p *planner) slidable(size int64, movable func(*Block) bool) (best window, ok bool) {
	w := window{first: p.edge.next}
	for b := p.edge.next; b != p.edge; b = b.next {
		if !b.free && !movable(b) {
			w = window{first: b.next}
			continue
		}
		w.add(b)
		for w.free >= size {
			if !ok || w.taken < best.taken {
				best, ok = w, true
			}
			w.shrink()
		}
	}
	return best, ok
}

// slideAll lists the moves that slide the blocks of w together.
func (p *planner) slideAll(w window) {
	for w.first.prev.free {
		w.first = w.first.prev
	}
	to := w.first.Off
	for b := w.first; b != w.last.next; b = b.next {
		if !b.free {
			p.list = append(p.list, Move{b, to})
			to += b.Size
		}
	}
}
