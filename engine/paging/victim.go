package paging

// cost is what giving an object up moves.
type cost struct {
	distance int  // launches until its next use
	out      bool // its contents must be copied out first
	in       bool // its next use reads it
}

// copies counts the copies: 0 to 2.
func (c cost) copies() int {
	n := 0
	if c.out {
		n++
	}
	if c.in {
		n++
	}
	return n
}

// before reports whether an object of cost c is given up before one of cost o:
// the one whose memory is free for the most launches per copy.
func (c cost) before(o cost) bool {
	if c.copies() == 0 || o.copies() == 0 {
		return c.copies() < o.copies()
	}
	return c.distance*o.copies() > o.distance*c.copies()
}

// cost is what giving an object up at launch now moves. A passing object that
// is overwritten next moves nothing.
func (m *memory) cost(object, now int) cost {
	var c cost
	c.distance, c.in = m.order.next(object, now)
	c.out = m.pages[object].dirty && (c.in || m.trace.Objects[object].Lasting)
	return c
}

// victim chooses the object to give up for launch now. There is one, because the
// launch alone fits.
func (m *memory) victim(now int) int {
	best, least := -1, cost{}
	for i := range m.pages {
		if !m.pages[i].here || m.locked[i] == m.clock {
			continue
		}
		if c := m.cost(i, now); best < 0 || c.before(least) {
			best, least = i, c
		}
	}
	if best < 0 {
		panic("BUG: nothing to give up, though the launch fits alone")
	}
	return best
}
