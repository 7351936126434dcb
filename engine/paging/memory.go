package paging

// page is the state of one object during a replay.
type page struct {
	here   bool // it has memory on the device
	dirty  bool // written since its last copy out
	whole  bool // it has contents
	fresh  bool // fed, and not copied in yet
	copied bool // copied out: the host has its contents
	leased int  // the last launch that used it, counted over all steps
}

// memory is a device's memory during a replay, which owns it.
type memory struct {
	Result  // of the step so far; Peak of all steps
	trace   *Trace
	order   *Order
	limit   int64
	policy  Policy
	used    int64 // bytes of the objects that are here
	leased  int64 // bytes here that the launch under way uses
	pages   []page
	clock   int      // launches so far, over all steps
	steps   int      // so far
	waits   bool     // the launch under way reads an object that was given up
	queues  []*Queue // one
	victims []Entry
	copies  copies
	ahead   bool                                                        // what moves is not for the launch under way
	hears   hears                                                       // what happens
	audit   func(victims []Entry, ok bool, bytes int64, now, after int) // of a test, before victims are given up
}

// hears are told what happens in a replay. Each may be nil.
type hears struct {
	copied func(Move)            // an object is copied
	came   func(object, now int) // an object is loaded
	went   func(object, now int) // an object is given up
	ran    func(now int)         // a launch has its memory
}

func newMemory(t *Trace, limit int64, p Policy) *memory {
	n := len(t.Objects)
	m := &memory{trace: t, order: NewOrder(t), limit: limit, policy: p, pages: make([]page, n), queues: []*Queue{NewQueue(n)}, copies: copies{}}
	for i, o := range t.Objects {
		m.pages[i].whole = o.Lasting
	}
	return m
}

// step runs all launches once.
func (m *memory) step() {
	for i, o := range m.trace.Objects {
		if o.Fed {
			m.drop(i)
			m.pages[i] = page{whole: true, fresh: true}
		}
	}
	for i := range m.trace.Launches {
		m.launch(i)
	}
	m.steps++
}

// launch takes memory for a launch, then for objects that later ones read, runs it,
// and frees what ends with it.
func (m *memory) launch(now int) {
	l := &m.trace.Launches[now]
	m.clock++
	m.queues[0].Clock = m.clock
	need := Rounded(l.Scratch)
	m.leaveEarly(l, now)
	m.leased = 0
	for _, u := range l.Uses {
		m.pages[u.Object].leased = m.clock
		m.queues[0].Forget(u.Object)
		if m.pages[u.Object].here {
			m.leased += m.rounded(u.Object)
		} else {
			need += m.rounded(u.Object)
		}
	}
	if need > 0 && !m.makeRoom(need+m.policy.Spare, now, 0) && !m.makeRoom(need, now, 0) {
		panic("BUG: nothing to give up, though the launch fits alone")
	}
	m.waits = false
	for _, u := range l.Uses {
		m.use(u, now)
	}
	if m.waits {
		m.Waits++
	}
	m.used += Rounded(l.Scratch)
	if m.hears.ran != nil {
		m.hears.ran(now)
	}
	m.loadEarly(now)
	m.Peak = max(m.Peak, m.used)
	m.used -= Rounded(l.Scratch)
	for _, o := range l.Frees {
		m.drop(o)
	}
	for _, u := range l.Uses {
		if m.pages[u.Object].here {
			m.queues[0].Add(m.candidate(u.Object, now))
		}
	}
}

// use brings an object here and changes it.
func (m *memory) use(u Use, now int) {
	p := &m.pages[u.Object]
	if !p.here {
		m.waits = m.waits || u.Read && !p.fresh
		m.bring(u.Object, u.Read, now)
	}
	p.whole = true
	if u.Write {
		p.dirty = true
		m.forgetCopy(u.Object)
	}
}

// forgetCopy drops the host's copy of an object, if there is one.
func (m *memory) forgetCopy(object int) {
	if p := &m.pages[object]; p.copied {
		p.copied = false
		m.copies.drop(m.trace.Objects[object].Bytes)
	}
}

// bring gives an object memory, and its contents if load is set.
func (m *memory) bring(object int, load bool, now int) {
	p, bytes := &m.pages[object], m.trace.Objects[object].Bytes
	if load && m.hears.came != nil {
		m.hears.came(object, now)
	}
	switch {
	case load && p.fresh:
		m.Fed += bytes
	case load:
		m.Loaded += bytes
		m.tell(object, now, false)
	}
	p.here, p.fresh = true, false
	m.used += m.rounded(object)
}

// leaveEarly gives up what the plan has leave with a launch.
func (m *memory) leaveEarly(l *Launch, now int) {
	if m.policy.Leaves == nil {
		return
	}
	for _, u := range l.Uses {
		m.pages[u.Object].leased = m.clock
	}
	m.ahead = true
	for _, o := range m.policy.Leaves[m.policy.Launch(now, m.steps, len(m.trace.Launches))] {
		if p := &m.pages[o]; p.here && p.leased != m.clock {
			m.giveUp(o, now)
		}
	}
	m.ahead = false
}

// loadEarly loads what the plan has come back with a launch. If need be, it gives up objects
// that are used later than that.
func (m *memory) loadEarly(now int) {
	if m.policy.Loads == nil {
		return
	}
	m.ahead = true
	for _, o := range m.policy.Loads[m.policy.Launch(now, m.steps, len(m.trace.Launches))] {
		p := &m.pages[o]
		distance, reads := m.order.Next(o, now)
		if p.here || !p.whole || !reads || !m.makeRoom(m.rounded(o)+m.policy.Spare, now, distance) {
			continue
		}
		m.bring(o, true, now)
		m.queues[0].Add(m.candidate(o, now))
	}
	m.ahead = false
}

// makeRoom gives up objects that the launch under way and as many after it do not
// use, until so many bytes fit. It reports false, and gives nothing up, if those
// are too few.
func (m *memory) makeRoom(bytes int64, now, after int) bool {
	over := m.used + bytes - m.limit
	if m.limit <= 0 || over <= 0 {
		return true
	}
	victims, ok := m.victims[:0], m.used-m.leased >= over // without a look at the queue, where they are too few
	if ok {
		victims, ok = Take(m.queues, victims, over, after)
	}
	if m.audit != nil {
		m.audit(victims, ok, over, now, after)
	}
	for _, v := range victims {
		m.giveUp(v.Object, now)
	}
	m.victims = victims
	return ok
}

// candidate describes an object that is here.
func (m *memory) candidate(object, now int) Candidate {
	c := Candidate{Object: object, Bytes: m.rounded(object)}
	var reads bool
	c.Distance, reads = m.order.Next(object, now)
	if m.loads(object, now, c.Distance, reads) {
		c.Copies++
	}
	if m.copiesOut(object, c.Copies > 0) && !m.order.Serves(object, now) {
		c.Copies++
	}
	return c
}

// loads reports whether an object must come back if it is given up now. One that
// is fed anew before its next use need not.
func (m *memory) loads(object, now, distance int, reads bool) bool {
	return reads && !(m.trace.Objects[object].Fed && now+distance >= len(m.trace.Launches))
}

// copiesOut reports whether an object must be copied out to be given up. Passing
// contents that are overwritten next need not.
func (m *memory) copiesOut(object int, loads bool) bool {
	return m.pages[object].dirty && (loads || m.trace.Objects[object].Lasting)
}

// giveUp takes an object's memory, after a copy out if its contents are nowhere
// else.
func (m *memory) giveUp(object, now int) {
	if m.hears.went != nil {
		m.hears.went(object, now)
	}
	distance, reads := m.order.Next(object, now)
	copied := m.pages[object].copied
	if m.copiesOut(object, m.loads(object, now, distance, reads)) {
		copied = true
		m.Spilled += m.trace.Objects[object].Bytes
		m.tell(object, now, true)
		m.copies.add(m.trace.Objects[object].Bytes)
	}
	m.leave(object)
	m.pages[object] = page{whole: true, copied: copied}
}

// drop takes an object's memory. Its contents are lost.
func (m *memory) drop(object int) {
	m.forgetCopy(object)
	m.leave(object)
	m.pages[object] = page{}
}

// leave takes an object's memory.
func (m *memory) leave(object int) {
	if m.pages[object].here {
		m.used -= m.rounded(object)
	}
	m.queues[0].Forget(object)
}

func (m *memory) rounded(object int) int64 { return Rounded(m.trace.Objects[object].Bytes) }

// copies counts the copies on the host during a replay, by size: now, and the most at once.
type copies map[int64]struct{ now, most int64 }

func (c copies) add(bytes int64) {
	n := c[bytes]
	n.now++
	n.most = max(n.most, n.now)
	c[bytes] = n
}

func (c copies) drop(bytes int64) {
	n := c[bytes]
	n.now--
	c[bytes] = n
}

// bytes is the host memory for the most copies of each size.
func (c copies) bytes() (sum int64) {
	for size, n := range c {
		sum += size * n.most
	}
	return sum
}
