package order

// line gives the jobs from the front, in their order. It is a heap, since a decision takes few
// jobs of many: it sorts no more of the line than it looks at.
type line struct {
	jobs []Job
	heap []int
}

func newLine(jobs []Job) *line {
	l := &line{jobs: jobs, heap: make([]int, len(jobs))}
	for i := range l.heap {
		l.heap[i] = i
	}
	for i := len(l.heap)/2 - 1; i >= 0; i-- {
		l.sink(i)
	}
	return l
}

// pop takes the job at the front, by its index. There must be one.
func (l *line) pop() (index int) {
	n := len(l.heap)
	index = l.heap[0]
	l.heap[0] = l.heap[n-1]
	l.heap = l.heap[:n-1]
	l.sink(0)
	return index
}

func (l *line) sink(i int) {
	for {
		c := 2*i + 1
		if c >= len(l.heap) {
			return
		}
		if c+1 < len(l.heap) && l.before(c+1, c) {
			c++
		}
		if !l.before(c, i) {
			return
		}
		l.heap[i], l.heap[c] = l.heap[c], l.heap[i]
		i = c
	}
}

func (l *line) before(i, k int) bool {
	return Compare(&l.jobs[l.heap[i]], &l.jobs[l.heap[k]]) < 0
}
