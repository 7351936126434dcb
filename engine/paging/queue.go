package paging

// queue has the objects that could be given up, best first, for a replay. [Choose]
// looks at all candidates for each choice; a queue keeps them in order, so a
// choice takes hardly longer the more there are.
//
// The order of two candidates does not change while neither is used, as long as
// giving them up makes as many copies: the one used later stays ahead. So there is
// a heap for each number of copies, and only their tops are compared.
type queue struct {
	heaps   [3][]entry // by Candidate.Copies
	version []int      // per object: of its newest entry
	aside   []entry    // of heaps[0]: needed too soon for the choice under way
}

// entry is a candidate with its next use in launches counted over all steps.
// It is outdated if it is not the newest of its object.
type entry struct {
	Candidate
	at, version int
}

func newQueue(objects int) *queue { return &queue{version: make([]int, objects)} }

// before is Candidate.before for entries of one heap.
func (e *entry) before(o *entry) bool {
	if e.Copies > 0 && e.at != o.at {
		return e.at > o.at
	}
	return e.Object < o.Object
}

// forget takes an object out.
func (q *queue) forget(object int) { q.version[object]++ }

// add puts an object in that is a candidate since the launch clock.
func (q *queue) add(c Candidate, clock int) {
	q.forget(c.Object)
	e := entry{Candidate: c, at: Never, version: q.version[c.Object]}
	if c.Distance < Never {
		e.at = clock + c.Distance
	}
	h := &q.heaps[c.Copies]
	if len(*h) > 4*len(q.version)+64 {
		q.tidy(h)
	}
	push(h, e)
}

// tidy removes outdated entries.
func (q *queue) tidy(h *[]entry) {
	all := *h
	*h = all[:0]
	for _, e := range all {
		if e.version == q.version[e.Object] {
			push(h, e)
		}
	}
}

// next takes out the best candidate at the launch clock that is not used in so
// many launches after it.
func (q *queue) next(clock, after int) (best entry, ok bool) {
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
			e.Distance = e.at - clock
		}
		switch {
		case e.Distance > after:
			if !ok || e.Candidate.before(&best.Candidate) {
				best, ok = e, true
			}
		case copies == 0: // those behind it may be used later
			q.aside = append(q.aside, pop(h))
			return q.next(clock, after)
		}
	}
	if ok {
		pop(&q.heaps[best.Copies])
	}
	return best, ok
}

// restore puts back what next passed over.
func (q *queue) restore() {
	for _, e := range q.aside {
		push(&q.heaps[0], e)
	}
	q.aside = q.aside[:0]
}

// choose takes out the candidates to give up to free so many bytes, like Choose. It
// appends them to victims; ok is false if all together are too few.
func (q *queue) choose(victims []entry, bytes int64, clock, after int) (chosen []entry, ok bool) {
	from := len(victims)
	for ok = true; ok && bytes > 0; {
		var e entry
		if e, ok = q.next(clock, after); ok {
			victims = append(victims, e)
			bytes -= e.Bytes
		}
	}
	q.restore()
	kept := from
	for i := len(victims) - 1; i >= from; i-- { // the worst first
		if !ok || bytes+victims[i].Bytes <= 0 {
			bytes += victims[i].Bytes
			push(&q.heaps[victims[i].Copies], victims[i])
			victims[i].Bytes = 0
		}
	}
	for _, e := range victims[from:] {
		if e.Bytes > 0 {
			victims[kept] = e
			kept++
		}
	}
	return victims[:kept], ok
}

// push adds an entry to a heap.
func push(h *[]entry, e entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(&s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// pop takes the first entry of a heap.
func pop(h *[]entry) entry {
	s := *h
	first, n := s[0], len(s)-1
	s[0] = s[n]
	s = s[:n]
	for i := 0; ; {
		best := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if s[k].before(&s[best]) {
				best = k
			}
		}
		if best == i {
			break
		}
		s[i], s[best] = s[best], s[i]
		i = best
	}
	*h = s
	return first
}
