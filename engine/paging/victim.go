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
// is overwritten next moves nothing, nor does one that is fed anew.
func (m *memory) cost(object, now int) cost {
	var c cost
	o := m.trace.Objects[object]
	c.distance, c.in = m.order.next(object, now)
	c.in = c.in && !(o.Fed && now+c.distance >= m.order.launches)
	c.out = m.pages[object].dirty && (c.in || o.Lasting)
	return c
}

// makeRoom gives objects up until so many bytes fit. The best victims may be
// small and the last one large: those that it makes unnecessary stay.
func (m *memory) makeRoom(bytes int64, now int) {
	over := m.used + bytes - m.limit
	if m.limit <= 0 || over <= 0 {
		return
	}
	m.victims = m.victims[:0]
	for over > 0 {
		v := m.victim(now)
		m.locked[v] = m.clock
		m.victims = append(m.victims, v)
		over -= m.rounded(v)
	}
	for i := len(m.victims) - 1; i >= 0; i-- {
		v := m.victims[i]
		if size := m.rounded(v); over+size <= 0 {
			over += size
			continue
		}
		m.giveUp(v, now)
	}
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
