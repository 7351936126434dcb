package paging

// Candidate is an object that could be given up.
type Candidate struct {
	Object   int   // decides between equals; index in Trace.Objects, or beyond
	Index    int   // for the caller; it decides nothing
	Bytes    int64 // its memory, rounded up
	Distance int   // launches until its next use, at least 1; Never if there is none
	Copies   int   // that giving it up makes: one out if it has the only newest contents, one in if its next use reads
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

// Choose reorders candidates and returns the last ones: those to give up to free so
// many bytes, the best at the end. The best may be small and the next one large:
// those that it makes unnecessary stay. ok is false if all together are too few.
func Choose(c []Candidate, bytes int64) (victims []Candidate, ok bool) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		sink(c, i)
	}
	n := len(c) // the candidates before n are a heap, its best first
	for ; n > 0 && bytes > 0; n-- {
		bytes -= c[0].Bytes
		c[0], c[n-1] = c[n-1], c[0]
		sink(c[:n-1], 0)
	}
	if bytes > 0 {
		return nil, false
	}
	victims = c[n:]
	kept := 0
	for i := range victims { // the worst first
		if bytes+victims[i].Bytes <= 0 {
			bytes += victims[i].Bytes
			continue
		}
		victims[kept] = victims[i]
		kept++
	}
	return victims[:kept], true
}

// sink restores the heap c where its element i may be worse than those below.
func sink(c []Candidate, i int) {
	for {
		best := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(c); k++ {
			if c[k].before(&c[best]) {
				best = k
			}
		}
		if best == i {
			return
		}
		c[i], c[best] = c[best], c[i]
		i = best
	}
}
