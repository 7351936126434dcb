package paging

// Candidate is an object that could be given up.
type Candidate struct {
	Object   int   // decides between equals; index in Trace.Objects
	Bytes    int64 // its memory, rounded up
	Distance int   // launches until its next use, at least 1; Never if there is none
	Copies   int   // that giving it up makes: one in if its next use reads; one out if it has the only newest contents, unless that serves many gaps
}

// before reports whether c leaves before o: first those that move nothing, then
// those whose memory is free for the most launches per copy. A clean one that is
// needed soon is no cheaper than a dirty one that is needed late.
func (c *Candidate) before(o *Candidate) bool {
	if (c.Copies == 0) != (o.Copies == 0) {
		return c.Copies == 0
	}
	if x, y := c.Distance*o.Copies, o.Distance*c.Copies; x != y {
		return x > y
	}
	return c.Object < o.Object
}

// Queue has the objects that could be given up, best first. Whoever has a device's memory, or
// replays it, owns one. [Take] picks what leaves and takes hardly longer the more objects there
// are.
//
// The order of two candidates does not change while neither is used, as long as
// giving them up makes as many copies: the one used later stays ahead. So there is
// a heap for each number of copies, and only their tops are compared.
type Queue struct {
	Clock   int        // a launch count: distances are counted from it
	heaps   [3][]Entry // by Candidate.Copies
	version []int      // per object: of its newest entry
	aside   []Entry    // of heaps[0]: needed too soon for the choice under way
}

// Entry is a candidate in a queue. It is outdated if it is not the newest of its object: taking
// an object out only counts its version up, and leaves its entries where they are in a heap.
type Entry struct {
	Candidate
	Queue   int // index in the list given to Take
	at      int // the launch of its next use, counted like Queue.Clock
	version int
}

// NewQueue makes an empty queue for so many objects.
func NewQueue(objects int) *Queue { return &Queue{version: make([]int, objects)} }

// before is Candidate.before for entries of one heap.
func (e *Entry) before(o *Entry) bool {
	if e.Copies > 0 && e.at != o.at {
		return e.at > o.at
	}
	return e.Object < o.Object
}

// Forget takes an object out.
func (q *Queue) Forget(object int) {
	for object >= len(q.version) {
		q.version = append(q.version, 0)
	}
	q.version[object]++
}

// Add puts an object in, in place of what it was before. Its distance counts from
// the clock.
func (q *Queue) Add(c Candidate) {
	q.Forget(c.Object)
	e := Entry{Candidate: c, at: Never, version: q.version[c.Object]}
	if c.Distance < Never {
		e.at = q.Clock + c.Distance
	}
	h := &q.heaps[c.Copies]
	if len(*h) > 4*len(q.version)+64 {
		q.tidy(h)
	}
	push(h, e)
}

// tidy removes outdated entries.
func (q *Queue) tidy(h *[]Entry) {
	all := *h
	*h = all[:0]
	for _, e := range all {
		if e.version == q.version[e.Object] {
			push(h, e)
		}
	}
}

// best is the best candidate that is not used in so many launches after the clock.
// It is at the top of its heap.
func (q *Queue) best(after int) (best Entry, ok bool) {
	for copies := range q.heaps {
		h := &q.heaps[copies]
		for len(*h) > 0 && (*h)[0].version != q.version[(*h)[0].Object] {
			pop(h)
		}
		if len(*h) == 0 {
			continue
		}
		e := (*h)[0]
		if e.Distance = Never; e.at < Never {
			e.Distance = e.at - q.Clock
		}
		switch {
		case e.Distance > after:
			if !ok || e.Candidate.before(&best.Candidate) {
				best, ok = e, true
			}
		case copies == 0: // those behind it may be used later
			q.aside = append(q.aside, pop(h))
			return q.best(after)
		}
	}
	return best, ok
}

// restore puts back what best passed over.
func (q *Queue) restore() {
	for _, e := range q.aside {
		push(&q.heaps[0], e)
	}
	q.aside = q.aside[:0]
}

// Take takes out of queues the objects to give up to free so many bytes, and appends
// them to victims. It spares objects that are used within that many launches. The
// best may be small and the next one large: those that it makes unnecessary stay. If
// all together are too few, it takes nothing, and ok is false.
func Take(queues []*Queue, victims []Entry, bytes int64, after int) (taken []Entry, ok bool) {
	// Take the best until their bytes are enough. bytes is what is still missing, and negative
	// where there is more than enough.
	from := len(victims)
	for ok = true; ok && bytes > 0; {
		var e Entry
		if e, ok = takeBest(queues, after); ok {
			victims = append(victims, e)
			bytes -= e.Bytes
		}
	}
	for _, q := range queues {
		q.restore()
	}
	// Put back those without which there is enough, the worst first. Bytes of 0 marks them.
	for i := len(victims) - 1; i >= from; i-- {
		if e := &victims[i]; !ok || bytes+e.Bytes <= 0 {
			bytes += e.Bytes
			push(&queues[e.Queue].heaps[e.Copies], *e)
			e.Bytes = 0
		}
	}
	kept := from
	for _, e := range victims[from:] {
		if e.Bytes > 0 {
			victims[kept] = e
			kept++
		}
	}
	return victims[:kept], ok
}

// takeBest takes out the best candidate of all queues.
func takeBest(queues []*Queue, after int) (best Entry, ok bool) {
	for i, q := range queues {
		e, found := q.best(after)
		if found && (!ok || e.Candidate.before(&best.Candidate)) {
			best, ok = e, true
			best.Queue = i
		}
	}
	if ok {
		pop(&queues[best.Queue].heaps[best.Copies])
	}
	return best, ok
}

// push adds an entry to a heap. Those above it that come later move down, until it has
// its place.
func push(h *[]Entry, e Entry) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
	*h = s
}

// pop takes the first entry of a heap. The last one fills its place: entries below that come
// before it move up.
func pop(h *[]Entry) Entry {
	s := *h
	first, n := s[0], len(s)-1
	e := s[n]
	s = s[:n]
	*h = s
	if n == 0 {
		return first
	}
	i := 0
	for k := 1; k < n; k = 2*i + 1 {
		if k+1 < n && s[k+1].before(&s[k]) {
			k++
		}
		if !s[k].before(&e) {
			break
		}
		s[i] = s[k]
		i = k
	}
	s[i] = e
	return first
}
