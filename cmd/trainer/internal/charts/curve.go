package charts

// mostBuckets bounds a curve: of a longer run, a bucket has several values.
const mostBuckets = 400

// curve is the values of a metric, by step.
type curve struct {
	every   int // values of a bucket; the last may have fewer, and that before a gap
	buckets []bucket
	missing bool // a value, since the last one
}

// bucket is values that follow each other.
type bucket struct {
	n         int
	step      float64 // mean over the values
	mean      float64
	low, high float64
	gap       bool // before it, or in it, a value is missing
}

// miss notes that a line has no value, as the metric is not defined there.
func (c *curve) miss() { c.missing = true }

// add adds a value at a step beyond those before; a lower step is passed over.
func (c *curve) add(step int, v float64) {
	at := bucket{1, float64(step), v, v, v, c.missing && len(c.buckets) > 0}
	last := len(c.buckets) - 1
	switch {
	case last < 0:
		c.every, c.buckets = 1, []bucket{at}
	case at.step <= c.buckets[last].step:
		return
	case c.buckets[last].n < c.every && !at.gap:
		c.buckets[last] = c.buckets[last].and(at)
	case len(c.buckets) == mostBuckets:
		c.halve()
		c.buckets = append(c.buckets, at)
	default:
		c.buckets = append(c.buckets, at)
	}
	c.missing = false
}

// halve makes one bucket of each two.
func (c *curve) halve() {
	for i := 0; i+1 < len(c.buckets); i += 2 {
		c.buckets[i/2] = c.buckets[i].and(c.buckets[i+1])
	}
	c.buckets = c.buckets[:len(c.buckets)/2]
	c.every *= 2
}

// end joins the last bucket to the one before if it has few values: their mean would
// stand out.
func (c *curve) end() {
	if last := len(c.buckets) - 1; last > 0 && 2*c.buckets[last].n < c.every {
		c.buckets[last-1] = c.buckets[last-1].and(c.buckets[last])
		c.buckets = c.buckets[:last]
	}
}

// and is the values of two buckets together.
func (b bucket) and(c bucket) bucket {
	n := float64(b.n + c.n)
	wb, wc := float64(b.n)/n, float64(c.n)/n
	return bucket{
		n: b.n + c.n, step: b.step*wb + c.step*wc, mean: b.mean*wb + c.mean*wc,
		low: min(b.low, c.low), high: max(b.high, c.high), gap: b.gap || c.gap,
	}
}
