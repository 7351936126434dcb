package paging

import "slices"

// Candidate is an object that could be given up.
type Candidate struct {
	Object   int   // decides between equals; index in Trace.Objects, or beyond
	Bytes    int64 // its memory, rounded up
	Distance int   // launches until its next use, at least 1; Never if there is none
	Copies   int   // that giving it up makes: one out if it has the only newest contents, one in if its next use reads
}

// before orders candidates: first those that move nothing, then those whose
// memory is free for the most launches per copy. A clean one that is needed soon
// is no cheaper than a dirty one that is needed late.
func (c *Candidate) before(o *Candidate) int {
	switch {
	case (c.Copies == 0) != (o.Copies == 0):
		return sign(c.Copies > 0, true)
	case c.Distance*o.Copies != o.Distance*c.Copies:
		return sign(c.Distance*o.Copies < o.Distance*c.Copies, true)
	}
	return c.Object - o.Object
}

// sign is 1 if a is b, else -1.
func sign(a, b bool) int {
	if a == b {
		return 1
	}
	return -1
}

// Choose reorders candidates and returns the first ones: those to give up to free so
// many bytes. The best may be small and the last one large: those that
// it makes unnecessary stay. ok is false if all together are too few.
func Choose(c []Candidate, bytes int64) (victims []Candidate, ok bool) {
	slices.SortFunc(c, func(a, b Candidate) int { return a.before(&b) })
	n := 0
	for ; n < len(c) && bytes > 0; n++ {
		bytes -= c[n].Bytes
	}
	if bytes > 0 {
		return nil, false
	}
	for i := n - 1; i >= 0; i-- {
		if bytes+c[i].Bytes <= 0 {
			bytes += c[i].Bytes
			stays := c[i]
			copy(c[i:n-1], c[i+1:n])
			n--
			c[n] = stays
		}
	}
	return c[:n], true
}
