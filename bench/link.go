package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/mpi"
	"github.com/berth-ml/berth/internal/units"
)

// Link is how fast the ranks of one launch send to each other.
type Link struct {
	Library  string     `json:"library"` // of MPI, and its version
	Ranks    int        `json:"ranks"`
	Machines int        `json:"machines"`
	Sizes    []LinkSize `json:"sizes"`
}

// LinkSize is what messages and vectors of a size take: medians.
type LinkSize struct {
	Bytes       int     `json:"bytes"`
	OneWayMS    float64 `json:"one_way_ms"`             // from rank 0 to rank 1
	SumMS       float64 `json:"sum_ms"`                 // of a vector over all ranks, by the tree that training uses
	AllreduceMS float64 `json:"allreduce_ms,omitempty"` // the same by MPI_Allreduce; 0: its numbers are not known
}

// Sizes of messages that are measured, in bytes.
var linkSizes = []int{4, 64 << 10, 500_000, 5_000_000, 52_000_000}

// linkRounds is how often each size is measured. Ways to sum take turns.
const linkRounds = 7

// MeasureLink measures the link between ranks. All of them call it, and each operation has so long.
func MeasureLink(ctx context.Context, w *mpi.World, each time.Duration) (Link, error) {
	l := link{ctx: ctx, world: w, each: each}
	out := Link{Library: w.Library(), Ranks: w.Size()}
	var err error
	if out.Machines, err = l.machines(); err != nil {
		return out, err
	}
	most := slices.Max(linkSizes) / 4
	l.x = make([]float32, most)
	add := isa.Best().Vec().Add
	l.sums, l.meet = ranks.NewReduction(w, most, add), ranks.NewReduction(w, 1, add)
	for _, n := range linkSizes {
		s, err := l.size(n)
		if err != nil {
			return out, err
		}
		out.Sizes = append(out.Sizes, s)
	}
	return out, nil
}

// link measures.
type link struct {
	ctx        context.Context
	world      *mpi.World
	each       time.Duration
	x          []float32
	sums, meet *ranks.Reduction
}

// mostName is the room for a machine's name, in bytes.
const mostName = 256

// machines counts the machines. All ranks tell rank 0 theirs, and the others do not need the number.
func (l *link) machines() (int, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.each)
	defer cancel()
	mine := make([]byte, mostName)
	name, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	copy(mine, name)
	if l.world.Rank() != 0 {
		return 0, l.world.Send(0, ranks.TagControl, mine).Wait(ctx)
	}
	names := [][]byte{mine}
	for r := 1; r < l.world.Size(); r++ {
		b := make([]byte, mostName)
		if err := l.world.Recv(r, ranks.TagControl, b).Wait(ctx); err != nil {
			return 0, fmt.Errorf("the name of rank %d's machine: %w", r, err)
		}
		names = append(names, b)
	}
	slices.SortFunc(names, bytes.Compare)
	return len(slices.CompactFunc(names, bytes.Equal)), nil
}

// size measures a size.
func (l *link) size(n int) (LinkSize, error) {
	s := LinkSize{Bytes: n}
	var oneWay, sum, all []float64
	for range linkRounds + 1 {
		for _, m := range []struct {
			to *[]float64
			do func(ctx context.Context, n int) (float64, bool, error)
		}{{&oneWay, l.oneWay}, {&sum, l.sum}, {&all, l.allreduce}} {
			ms, ok, err := l.measure(n, m.do)
			if err != nil {
				return s, err
			}
			if ok {
				*m.to = append(*m.to, ms)
			}
		}
	}
	s.OneWayMS, s.SumMS, s.AllreduceMS = medianOfRounds(oneWay), medianOfRounds(sum), medianOfRounds(all)
	return s, nil
}

// medianOfRounds is the median without the first round, in which memory is touched for the first time.
func medianOfRounds(ms []float64) float64 {
	if len(ms) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(ms[1:]))[len(ms[1:])/2]
}

// measure measures once, from a moment at which all ranks are ready.
func (l *link) measure(n int, do func(context.Context, int) (float64, bool, error)) (float64, bool, error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.each)
	defer cancel()
	var ready [1]float32
	if err := l.meet.Sum(ctx, ready[:]); err != nil {
		return 0, false, err
	}
	return do(ctx, n)
}

// oneWay has a message go to rank 1 and back.
func (l *link) oneWay(ctx context.Context, n int) (ms float64, ok bool, err error) {
	if l.world.Rank() > 1 {
		return 0, false, nil
	}
	ms, err = oneWay(ctx, l.world, 1, shape.Bytes(l.x[:n/4]))
	return ms, true, err
}

// oneWay has a message go from rank 0 to a peer and back, several times if it is short. Both call it.
func oneWay(ctx context.Context, t ranks.Transport, peer int, b []byte) (ms float64, err error) {
	times := min(max(1, 1<<20/len(b)), 200)
	first, second, other := t.Send, t.Recv, peer
	if t.Rank() == peer {
		first, second, other = second, first, 0
	}
	began := time.Now()
	for range times {
		if err := first(other, ranks.TagBench, b).Wait(ctx); err != nil {
			return 0, err
		}
		if err := second(other, ranks.TagBench, b).Wait(ctx); err != nil {
			return 0, err
		}
	}
	return since(began) / float64(2*times), nil
}

func (l *link) sum(ctx context.Context, n int) (ms float64, ok bool, err error) {
	began := time.Now()
	err = l.sums.Sum(ctx, l.x[:n/4])
	return since(began), true, err
}

func (l *link) allreduce(ctx context.Context, n int) (ms float64, ok bool, err error) {
	began := time.Now()
	e, ok := l.world.Allreduce(shape.Bytes(l.x[:n/4]))
	if !ok {
		return 0, false, nil
	}
	err = e.Wait(ctx)
	return since(began), true, err
}

// since is the time since a moment, in milliseconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() * 1e3 }

// WriteLink prints a table.
func WriteLink(w io.Writer, l Link, width int) error {
	rows := [][]string{{"SIZE", "ONE WAY", "SUM", "MPI_Allreduce", "SUM / MPI"}}
	for _, s := range l.Sizes {
		row := []string{units.Bytes(int64(s.Bytes)), linkTime(s.OneWayMS), linkTime(s.SumMS), "-", "-"}
		if s.AllreduceMS > 0 {
			row[3], row[4] = linkTime(s.AllreduceMS), fmt.Sprintf("%.2f", s.SumMS/s.AllreduceMS)
		}
		rows = append(rows, row)
	}
	_, err := fmt.Fprintf(w, "%s on %s, %s\n%s", units.Count(l.Ranks, "rank"), units.Count(l.Machines, "machine"), l.Library, numbers(rows, width))
	return err
}

// linkTime is a time with three digits.
func linkTime(ms float64) string {
	if ms < 1 {
		return fmt.Sprintf("%.3g µs", 1e3*ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
