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
