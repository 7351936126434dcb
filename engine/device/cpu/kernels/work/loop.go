package work

// Task is one parallel loop, cut into chunks.
type Task interface {
	// Chunk runs chunk i. Chunks may run in any order and at the same time.
	Chunk(i int)
}

// Pool runs tasks.
type Pool interface {
	// Do runs Chunk(0) to Chunk(chunks-1) and returns when all are done. It
	// allocates nothing.
	Do(chunks int, t Task)
	// Threads is the number of chunks that run at the same time.
	Threads() int
}

// Do runs a task of n chunks, without the pool when there is nothing to share.
func Do(p Pool, n int, t Task) {
	switch n {
	case 0:
	case 1:
		t.Chunk(0)
	default:
		p.Do(n, t)
	}
}

// Loop is a kernel whose run is one parallel loop.
type Loop interface {
	Kernel
	Task
	// Bind takes the arguments of a run and returns the number of its chunks.
	Bind(a *Args) int
	// End ends the run after all chunks.
	End(a *Args) error
}

// RunLoop runs a loop alone.
func RunLoop(l Loop, p Pool, a *Args) error {
	Do(p, l.Bind(a), l)
	return l.End(a)
}

const (
	// Grain is the elements of an elementwise chunk: enough work to be worth handing to
	// a thread, little enough to stay in the first cache.
	Grain = 4096

	// EnoughChunks is the number of chunks from which on a few threads end at about the
	// same time.
	EnoughChunks = 16
)

// RowGrain is the rows of c elements that make a chunk.
func RowGrain(c int) int { return max(1, Grain/max(1, c)) }

// CeilDiv is n/size, rounded up: the number of intervals of a size that n elements make.
func CeilDiv(n, size int) int { return (n + size - 1) / size }

// Interval is interval i of n elements cut into intervals of a size.
func Interval(i, size, n int) (lo, hi int) { return i * size, min(i*size+size, n) }
