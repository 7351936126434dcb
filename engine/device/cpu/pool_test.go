package cpu

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counts counts how often each chunk ran.
type counts struct{ n [1000]atomic.Int32 }

func (c *counts) Chunk(i int) { c.n[i].Add(1) }

// TestPoolRunsEachChunkOnce runs loops of many lengths, with pauses long enough
// for workers to fall asleep, on more threads than there are cores too.
func TestPoolRunsEachChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := newPool(threads)
		if p.Threads() != threads {
			t.Errorf("%d threads, expected %d", p.Threads(), threads)
		}
		for round := range 400 {
			chunks := []int{0, 1, 2, 3, 7, 100, 1000}[round%7]
			c := &counts{}
			p.Do(chunks, c)
			for i := range c.n {
				want := int32(0)
				if i < chunks {
					want = 1
				}
				if got := c.n[i].Load(); got != want {
					t.Fatalf("%d threads, %d chunks: chunk %d ran %d times", threads, chunks, i, got)
				}
			}
			if round%100 == 99 {
				time.Sleep(time.Millisecond)
			}
		}
		p.close()
	}
}

// breaks panics in one chunk.
type breaks struct{ at int }

func (b breaks) Chunk(i int) {
	if i == b.at {
		panic(fmt.Sprintf("chunk %d broke", i))
	}
}

func TestPoolPanic(t *testing.T) {
	for _, threads := range []int{1, 3} {
		p := newPool(threads)
		for at := range 20 {
			func() {
				defer func() {
					if v := fmt.Sprint(recover()); !strings.Contains(v, fmt.Sprintf("chunk %d broke", at)) {
						t.Errorf("%d threads: Do panicked with %q", threads, v)
					}
				}()
				p.Do(20, breaks{at})
			}()
			c := &counts{}
			p.Do(10, c) // the pool still works
			if c.n[9].Load() != 1 {
				t.Error("a chunk did not run after a panic")
			}
		}
		p.close()
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(2)
	defer p.close()
	c := &counts{}
	if n := testing.AllocsPerRun(100, func() { p.Do(50, c) }); n != 0 {
		t.Errorf("a loop allocates %v times", n)
	}
}
