package paging

// copies counts the copies on the host by size: now, and the most at once.
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
