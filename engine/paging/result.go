package paging

// Result is the outcome of a replay.
type Result struct {
	Peak  int64 // most bytes of objects and scratch at once, in order of submission
	Floor int64 // the largest lease
	Fits  bool  // the floor is within the limit; if not, the rest is zero

	// Of a steady step, an average if steps differ.
	Fed     int64 // bytes of fed objects copied in for the first time in the step
	Loaded  int64 // bytes copied in again after they were given up
	Spilled int64 // bytes copied out to be given up
	Waits   int   // launches that read an object which was given up and not loaded ahead

	Host int64 // bytes of host memory that copies out take, if it is kept for later ones of the same size
}

// Moved is the bytes that move because memory is limited.
func (r *Result) Moved() int64 { return r.Loaded + r.Spilled }

// average takes the counts of steps that repeat in a circle.
func (r *Result) average(counts []Result) {
	for _, c := range counts {
		r.Fed += c.Fed
		r.Loaded += c.Loaded
		r.Spilled += c.Spilled
		r.Waits += c.Waits
	}
	n := int64(len(counts))
	r.Fed, r.Loaded, r.Spilled, r.Waits = r.Fed/n, r.Loaded/n, r.Spilled/n, r.Waits/len(counts)
}
