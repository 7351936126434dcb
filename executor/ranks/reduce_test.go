package ranks

import (
	"context"
	"math"
	"math/bits"
	"testing"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

func add(y, a, b []float32) {
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

// tree is the sum of ranks from to to-1 by the documented tree.
func tree(x [][]float32, from, to int) []float32 {
	if to-from == 1 {
		return x[from]
	}
	mid := from + 1<<(bits.Len(uint(to-from-1))-1)
	sum := make([]float32, len(x[from]))
	add(sum, tree(x, from, mid), tree(x, mid, to))
	return sum
}

// TestSum: any number of ranks has the bits of the tree, for vectors of any length.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "ranks")
		elems := rapid.IntRange(0, 200).Draw(t, "elements")
		times := rapid.IntRange(1, 3).Draw(t, "sums")
		seed := rapid.Uint32().Draw(t, "seed")
		x := make([][]float32, size)
		for r := range x {
			x[r] = make([]float32, elems)
			for i := range x[r] {
				seed = seed*1664525 + 1013904223
				x[r][i] = float32(int32(seed)) * float32(math.Pow(2, float64(seed%40)-50))
			}
		}
		var g errgroup.Group
		world := NewLoop(size, func(int) {})
		want := tree(x, 0, size)
		got := make([][]float32, size)
		for r := range size {
			g.Go(func() error {
				sums := NewReduction(world[r], elems, add)
				sums.chunk = 7
				for range times {
					got[r] = append([]float32(nil), x[r]...)
					if err := sums.Sum(context.Background(), got[r]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		for r := range size {
			for i := range got[r] {
				if math.Float32bits(got[r][i]) != math.Float32bits(want[i]) {
					t.Fatalf("rank %d of %d, element %d of %d: %v, want %v", r, size, i, elems, got[r][i], want[i])
				}
			}
		}
	})
}
