package kernelstest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// Serial runs chunks in order.
type Serial struct{}

// Threads is 1.
func (Serial) Threads() int { return 1 }

// Do implements [work.Pool].
func (Serial) Do(chunks int, t work.Task) {
	for i := range chunks {
		t.Chunk(i)
	}
}

// Shuffled runs chunks in random order on several goroutines.
type Shuffled struct {
	N   int // goroutines
	Rng *rand.Rand
}

// Threads is the number of goroutines.
func (p Shuffled) Threads() int { return p.N }

// Do implements [work.Pool].
func (p Shuffled) Do(chunks int, t work.Task) {
	order := p.Rng.Perm(chunks)
	share(p.N, chunks, func(i int) { t.Chunk(order[i]) })
}

// Team shares chunks in order between goroutines, as a device does.
type Team struct{ N int }

// Threads is the number of goroutines.
func (p Team) Threads() int { return p.N }

// Do implements [work.Pool].
func (p Team) Do(chunks int, t work.Task) { share(p.N, chunks, t.Chunk) }

// share calls do for 0 to n-1 on so many goroutines.
func share(goroutines, n int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
