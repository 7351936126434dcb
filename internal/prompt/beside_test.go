package prompt_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/berth-ml/berth/internal/prompt"
)

// TestBeside: each call has one goroutine more run at once until its end, whoever else calls, and Threads counts none of them.
func TestBeside(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	one, two := prompt.Beside(), prompt.Beside()
	if n := runtime.GOMAXPROCS(0); n != threads+2 || prompt.Threads() != threads {
		t.Errorf("%d goroutines run at once, %d without two calls, want %d and %d", n, prompt.Threads(), threads+2, threads)
	}
	one()
	two()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { prompt.Beside()() })
	}
	all.Wait()
	if n := runtime.GOMAXPROCS(0); n != threads || prompt.Threads() != threads {
		t.Errorf("%d goroutines run at once afterwards, %d of them counted, want %d", n, prompt.Threads(), threads)
	}
}
