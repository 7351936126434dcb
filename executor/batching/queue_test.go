package batching_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/batching"
)

// doubled computes 2x and x of each sample, a byte.
func doubled(b batching.Batch) ([]float32, error) {
	var out []float32
	for _, x := range b.Rows[:b.Samples] {
		out = append(out, 2*float32(x), float32(x))
	}
	return out, nil
}

// Each request gets the numbers of its own samples, whatever else is in its batches, and
// batches have the sizes of buckets alone.
func TestRequestsGetTheirOwnNumbers(t *testing.T) {
	const most = 12
	q := batching.New(batching.Options{Batch: most, Waiting: 1000, Run: func(b batching.Batch) ([]float32, error) {
		if !slices.Contains(batching.Buckets(most), b.Samples) || len(b.Rows)%b.Samples != 0 {
			return nil, fmt.Errorf("a batch of %d samples has %d bytes", b.Samples, len(b.Rows))
		}
		row := len(b.Rows) / b.Samples
		firsts := batching.Batch{Samples: b.Samples}
		for i := range b.Samples {
			firsts.Rows = append(firsts.Rows, b.Rows[i*row])
		}
		time.Sleep(50 * time.Microsecond)
		return doubled(firsts)
	}})
	defer q.Close()
	var clients sync.WaitGroup
	for k := range 40 {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(k)))
			for range 10 {
				row, n := 1+rnd.IntN(2), 1+rnd.IntN(2*most)
				rows := make([]byte, row*n)
				var want []float32
				for i := range n {
					rows[i*row] = byte(rnd.IntN(256))
					want = append(want, 2*float32(rows[i*row]), float32(rows[i*row]))
				}
				if got, err := q.Do(t.Context(), rows, row, nil); err != nil || !slices.Equal(got, want) {
					t.Errorf("client %d: %v, want %v; %v", k, got, want, err)
				}
			}
		})
	}
	clients.Wait()
	s, batches := q.Stats(), int64(0)
	for _, n := range s.Batches {
		batches += n
	}
	if s.Waiting != 0 || s.Samples < 400 || batches >= s.Samples {
		t.Errorf("%+v", s)
	}
}

func TestBuckets(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 8: {1, 2, 4, 8}, 12: {1, 2, 4, 8, 12}} {
		if got := batching.Buckets(n); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// held is a queue whose batches end when the test says so.
func held(t *testing.T, o batching.Options) (q *batching.Queue, began chan batching.Batch, end chan error) {
	began, end = make(chan batching.Batch), make(chan error)
	o.Run = func(b batching.Batch) ([]float32, error) {
		began <- b
		if err := <-end; err != nil {
			return nil, err
		}
		return doubled(b)
	}
	return batching.New(o), began, end
}

// A full queue refuses. A request whose time is up before its batch is not computed, and
// one whose batch is under way is not waited for.
func TestFullQueueAndExpiredRequests(t *testing.T) {
	q, began, end := held(t, batching.Options{Batch: 2, Waiting: 3})
	first, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	results := make(chan error)
	do := func(ctx context.Context, rows ...byte) {
		go func() {
			_, err := q.Do(ctx, rows, 1, nil)
			results <- err
		}()
	}
	do(first, 1)
	<-began
	cancel(gone)
	if err := <-results; !errors.Is(err, gone) {
		t.Errorf("the request under way: %v", err)
	}
	do(t.Context(), 2, 3, 4) // one request may be larger than a batch
	waitFor(t, q, 3)
	if _, err := q.Do(t.Context(), []byte{5}, 1, nil); !errors.Is(err, batching.ErrFull) {
		t.Errorf("the queue is full: %v", err)
	}
	end <- nil
	if b := <-began; b.Samples != 2 || b.Rows[0] != 2 {
		t.Errorf("the next batch is %v", b)
	}
	late, over := context.WithCancelCause(t.Context())
	do(late, 6)
	waitFor(t, q, 2)
	over(gone)
	if err := <-results; !errors.Is(err, gone) {
		t.Errorf("the request that waits: %v", err)
	}
	end <- nil
	if b := <-began; b.Samples != 1 || b.Rows[0] != 4 {
		t.Errorf("the last batch is %v", b)
	}
	end <- nil
	if err := <-results; err != nil {
		t.Error(err)
	}
	if s := q.Stats(); s.Expired != 1 || s.Samples != 4 || !slices.Equal(s.Batches, []int64{2, 1}) {
		t.Errorf("%+v", s)
	}
	q.Close()
	if _, err := q.Do(t.Context(), []byte{1}, 1, nil); !errors.Is(err, batching.ErrClosed) {
		t.Errorf("a closed queue: %v", err)
	}
}

// waitFor waits until so many samples wait.
func waitFor(t *testing.T, q *batching.Queue, samples int) {
	for began := time.Now(); q.Stats().Waiting != samples; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d samples wait, not %d", q.Stats().Waiting, samples)
		}
	}
}

// An error is that of all requests in the batch, or of the one that causes it. Close lets
// the batch under way end, and refuses those that wait.
func TestErrorsAndClosing(t *testing.T) {
	bad := errors.New("a sample cannot be computed")
	alone := true
	q := batching.New(batching.Options{Batch: 4, Waiting: 10, Alone: func(error) bool { return alone }, Run: func(b batching.Batch) ([]float32, error) {
		time.Sleep(5 * time.Millisecond)
		if slices.Contains(b.Rows, 13) {
			return nil, bad
		}
		return doubled(b)
	}})
	for _, alone = range []bool{true, false} {
		var clients sync.WaitGroup
		failed := make([]bool, 6)
		for k := range 6 {
			clients.Go(func() {
				out, err := q.Do(t.Context(), []byte{byte(10 + k)}, 1, nil)
				failed[k] = err != nil
				if err == nil && !slices.Equal(out, []float32{2 * float32(10+k), float32(10 + k)}) || err != nil && !errors.Is(err, bad) {
					t.Errorf("request %d: %v, %v", k, out, err)
				}
			})
		}
		clients.Wait()
		if !failed[3] || alone && slices.Index(failed, true) != 3 {
			t.Errorf("alone %v: failed %v", alone, failed)
		}
	}
	q.Close()
	held, began, end := held(t, batching.Options{Batch: 1, Waiting: 10})
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := held.Do(t.Context(), []byte{1}, 1, nil)
			results <- err
		}()
	}
	<-began
	waitFor(t, held, 1)
	closed := make(chan struct{})
	go func() {
		held.Close()
		close(closed)
	}()
	for errors.Is(tried(held), batching.ErrFull) {
		time.Sleep(time.Millisecond)
	}
	end <- nil
	<-closed
	a, b := <-results, <-results
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), batching.ErrClosed) {
		t.Errorf("%v, %v", a, b)
	}
}

// tried is ErrFull while the queue takes requests, and has too many.
func tried(q *batching.Queue) error {
	_, err := q.Do(context.Background(), make([]byte, 11), 1, nil)
	return err
}

// A panic about the samples of one request is that request's, in its own goroutine. The others of its
// batch get their numbers, and the queue goes on.
func TestPanics(t *testing.T) {
	const bad = 13
	q := batching.New(batching.Options{Batch: 8, Waiting: 100, Run: func(b batching.Batch) ([]float32, error) {
		if slices.Contains(b.Rows, bad) {
			panic("no number for 13")
		}
		return doubled(b)
	}})
	defer q.Close()
	do := func(pick func(int, []float32) []float32, rows ...byte) (out []float32, caught any) {
		defer func() { caught = recover() }()
		out, err := q.Do(t.Context(), rows, 1, pick)
		if err != nil {
			t.Error(err)
		}
		return out, nil
	}
	for range 3 {
		var clients sync.WaitGroup
		for k := range 6 {
			clients.Go(func() {
				if out, caught := do(nil, byte(k)); caught != nil || len(out) != 2 || out[1] != float32(k) {
					t.Errorf("request %d: %v, %v", k, out, caught)
				}
			})
		}
		clients.Go(func() {
			if _, caught := do(nil, 1, bad); !strings.Contains(fmt.Sprint(caught), "no number for 13") {
				t.Errorf("a panic of a batch: %v", caught)
			}
		})
		clients.Go(func() {
			pick := func(sample int, numbers []float32) []float32 { return numbers[sample+1:] }
			if _, caught := do(pick, 1, 2, 3); !strings.Contains(fmt.Sprint(caught), "slice bounds out of range") {
				t.Errorf("a panic of pick: %v", caught)
			}
		})
		clients.Wait()
	}
	if s := q.Stats(); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// Workers compute at the same time: the second batch begins while the first one is under way. A request of several
// batches gets its numbers in their order, whichever worker ends first.
func TestWorkersComputeAtTheSameTime(t *testing.T) {
	var mu sync.Mutex
	under, other := 0, make(chan struct{})
	q := batching.New(batching.Options{Batch: 1, Waiting: 10, Workers: 2, Run: func(b batching.Batch) ([]float32, error) {
		mu.Lock()
		if under++; under == 2 {
			close(other)
		}
		mu.Unlock()
		<-other // no worker alone gets beyond this
		if b.Rows[0] == 0 {
			time.Sleep(2 * time.Millisecond) // the first is the last to end
		}
		return doubled(b)
	}})
	defer q.Close()
	got, err := q.Do(t.Context(), []byte{0, 1, 2, 3}, 1, nil)
	if want := []float32{0, 0, 2, 1, 4, 2, 6, 3}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v; %v", got, want, err)
	}
}

// The batch of a worker that is gone is computed by another one, with the same numbers, and counted once. The
// last worker stays: its error is that of the requests.
func TestWorkersThatAreGone(t *testing.T) {
	lost := errors.New("the device is lost")
	var mu sync.Mutex
	var gone [2]bool
	isGone := func(i int) bool {
		mu.Lock()
		defer mu.Unlock()
		return gone[i]
	}
	lose := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		gone[i] = true
	}
	var broken, ran [2]bool
	var begin sync.Once
	first := make(chan struct{})
	q := batching.New(batching.Options{Batch: 4, Waiting: 100, Workers: 2, Gone: isGone, Run: func(b batching.Batch) ([]float32, error) {
		mu.Lock()
		ran[b.Worker] = true
		fails := broken[b.Worker]
		both := ran[0] && ran[1]
		mu.Unlock()
		if both {
			begin.Do(func() { close(first) })
		}
		<-first // each worker has a batch
		if b.Worker == 1 && !fails {
			lose(1)
			return nil, lost
		}
		if fails {
			return nil, lost
		}
		return doubled(b)
	}})
	rows, want := make([]byte, 50), []float32{}
	for i := range rows {
		rows[i] = byte(i)
		want = append(want, 2*float32(i), float32(i))
	}
	got, err := q.Do(t.Context(), rows, 1, nil)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v; %v", got, want, err)
	}
	if s := q.Stats(); s.Samples != 50 || s.Waiting != 0 || !isGone(1) {
		t.Errorf("%+v", s)
	}
	mu.Lock()
	broken[0] = true
	mu.Unlock()
	if _, err := q.Do(t.Context(), rows, 1, nil); !errors.Is(err, lost) {
		t.Errorf("the last worker: %v", err)
	}
	q.Close()
}

// A worker that has to wait leaves what waits to another, and takes its own batch once it is ready.
func TestWorkerThatIsNotReady(t *testing.T) {
	busy, waits := make(chan struct{}), make(chan struct{})
	var computed [2]atomic.Int64
	var once sync.Once
	q := batching.New(batching.Options{
		Batch: 1, Waiting: 100, Workers: 2,
		Ready: func(worker int, others func()) {
			if worker == 0 {
				others()
				once.Do(func() { close(waits) })
				<-busy
			}
		},
		Run: func(b batching.Batch) ([]float32, error) {
			computed[b.Worker].Add(1)
			return make([]float32, b.Samples), nil
		},
	})
	defer q.Close()
	defer close(busy)
	for entered := false; !entered; {
		if _, err := q.Do(t.Context(), []byte{1}, 1, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-waits:
			entered = true
		default:
		}
	}
	for range 10 {
		if _, err := q.Do(t.Context(), []byte{1}, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if computed[0].Load() != 0 {
		t.Error("a worker that is not ready has computed")
	}
}

// A batch with which a second worker fails, and is gone, fails: it takes no third one along.
func TestBatchThatEndsWorkers(t *testing.T) {
	var gone [4]atomic.Bool
	bad := errors.New("bad")
	q := batching.New(batching.Options{
		Batch: 1, Waiting: 100, Workers: 4,
		Gone: func(i int) bool { return gone[i].Load() },
		Run: func(b batching.Batch) ([]float32, error) {
			if b.Rows[0] == 9 {
				gone[b.Worker].Store(true)
				return nil, bad
			}
			return make([]float32, b.Samples), nil
		},
	})
	defer q.Close()
	if _, err := q.Do(t.Context(), []byte{9}, 1, nil); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	lost := 0
	for i := range gone {
		if gone[i].Load() {
			lost++
		}
	}
	if lost != 2 {
		t.Errorf("%d workers are gone, expected 2", lost)
	}
	if _, err := q.Do(t.Context(), []byte{1}, 1, nil); err != nil {
		t.Errorf("the others: %v", err)
	}
}

// A request of many batches has its numbers in order, whoever computes them, and they are copied once.
func TestPartsOfManyWorkers(t *testing.T) {
	q := batching.New(batching.Options{Batch: 2, Waiting: 1 << 12, Workers: 3, Run: func(b batching.Batch) ([]float32, error) {
		if b.Rows[0]%3 == 0 {
			runtime.Gosched()
		}
		out := make([]float32, b.Samples)
		for i := range out {
			out[i] = float32(b.Rows[i])
		}
		return out, nil
	}})
	defer q.Close()
	rows := make([]byte, 251)
	for i := range rows {
		rows[i] = byte(i)
	}
	for range 20 {
		out, err := q.Do(t.Context(), rows, 1, nil)
		if err != nil || len(out) != len(rows) || cap(out) != len(rows) {
			t.Fatalf("%d numbers in room for %d: %v", len(out), cap(out), err)
		}
		for i, x := range out {
			if x != float32(i) {
				t.Fatalf("number %d is %v", i, x)
			}
		}
	}
}
