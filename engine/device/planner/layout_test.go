package planner

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
)

const alignment = 64 // bytes, of most tests

// padded is a storage's size as a multiple of the alignment.
func padded(s *Storage) int64 { return (s.Size + alignment - 1) / alignment * alignment }

// plainLayout is layout, with every storage looked at for every other one.
func plainLayout(temps []*Storage) (total int64) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *Storage) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.first, b.first))
	})
	var placed []*Storage
	for _, s := range order {
		if s.Size == 0 {
			continue
		}
		s.room = padded(s)
		g := gaps{need: s.room, best: -1}
		for _, t := range placed {
			if t.last >= s.first && s.last >= t.first {
				g.meet(t.Off, t.end())
			}
		}
		if s.Off = g.end; g.best >= 0 {
			s.Off = g.best
		}
		total = max(total, s.end())
		placed = append(placed, s)
		slices.SortStableFunc(placed, func(a, b *Storage) int { return cmp.Compare(a.Off, b.Off) })
	}
	return total
}

func mustLayout(t rapid.TB, temps []*Storage) int64 {
	t.Helper()
	total, err := layout(temps, alignment, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// deepTemps is the temporaries of a model of that many layers: per layer, values of
// several sizes that backward reads, and others that die at once.
func deepTemps(layers int) []*Storage {
	var temps []*Storage
	steps := 20 * layers
	for l := range layers {
		for k := range int64(4) {
			temps = append(temps,
				&Storage{Size: 1000 + 300*k, first: 10*l + int(k), last: steps - 10*l - int(k)},
				&Storage{Size: 900 + 300*k, first: 10*l + int(k), last: 10*l + int(k) + 2},
				&Storage{Size: 800 + 300*k, first: steps - 10*l - 5, last: steps - 10*l - int(k)})
		}
	}
	return temps
}

// equalTemps is like deepTemps, but all values have one of two sizes: in order of
// size, those that live for long alternate with those that die at once.
func equalTemps(layers int) []*Storage {
	var temps []*Storage
	steps := 20 * layers
	for l := range layers {
		for k := range 3 {
			size := int64(1024 << (k % 2))
			temps = append(temps,
				&Storage{Size: size, first: 10*l + k, last: steps - 10*l - k},
				&Storage{Size: size, first: 10*l + k, last: 10*l + k + 2},
				&Storage{Size: size, first: steps - 10*l - 5, last: steps - 10*l - k})
		}
	}
	return temps
}

// The offsets are those of the plain way, on random lives and on deep models'.
func TestLayoutIsThePlainOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	check := func(temps []*Storage) {
		t.Helper()
		want := plainLayout(temps)
		var offs []int64
		for _, s := range temps {
			offs = append(offs, s.Off)
			s.Off = -1
		}
		if got := mustLayout(t, temps); got != want {
			t.Fatalf("%d bytes, the plain way takes %d", got, want)
		}
		for i, s := range temps {
			if s.Size > 0 && s.Off != offs[i] {
				t.Fatalf("storage %d is at %d, the plain way puts it at %d", i, s.Off, offs[i])
			}
		}
	}
	for range 20 {
		var temps []*Storage
		sizes := 1 + rng.Int64N(2000)
		for range rng.IntN(600) {
			first := rng.IntN(300)
			temps = append(temps, &Storage{Size: rng.Int64N(sizes), first: first, last: first + rng.IntN(1+rng.IntN(100))})
		}
		check(temps)
	}
	for range 4 { // enough for nodes of nodes
		var temps []*Storage
		steps := 1 + rng.IntN(4000)
		for range 1500 {
			first := rng.IntN(steps)
			long := rng.IntN(1 + []int{4, 40, steps}[rng.IntN(3)])
			temps = append(temps, &Storage{Size: 64 << rng.IntN(1+rng.IntN(6)), first: first, last: min(first+long, steps)})
		}
		check(temps)
	}
	check(deepTemps(80))
	check(equalTemps(100))
}

// Twice as deep a model takes little more than twice the work.
func TestLayoutOfDeepModels(t *testing.T) {
	for name, temps := range map[string]func(layers int) []*Storage{"several sizes": deepTemps, "two sizes": equalTemps} {
		_, once, _ := layOut(temps(2000), alignment, stop.When(nil))
		_, more, _ := layOut(temps(8000), alignment, stop.When(nil))
		if ratio := float64(more) / float64(once); ratio > 6 {
			t.Errorf("%s: %d looks at 2000 layers and %d at 8000, %.1f times as many: 4 layers for 1 should take less than 6 for 1", name, once, more, ratio)
		}
	}
}

// A long layout ends where it is told to stop.
func TestLayoutStops(t *testing.T) {
	stopped, asked := errors.New("stopped"), 0
	_, err := layout(deepTemps(2000), alignment, stop.When(func() error {
		if asked++; asked == 3 {
			return stopped
		}
		return nil
	}))
	if !errors.Is(err, stopped) || asked != 3 {
		t.Errorf("asked %d times, the error is %v", asked, err)
	}
}

// TestLayoutRandom checks that storages whose lives overlap never share bytes,
// and that the region is no larger than it must be for the worst instant by
// more than a factor of two.
func TestLayoutRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const steps = 30
		var temps []*Storage
		for range rapid.IntRange(0, 40).Draw(rt, "temporaries") {
			first := rapid.IntRange(0, steps-1).Draw(rt, "first")
			temps = append(temps, &Storage{Class: Temporary, first: first,
				last: rapid.IntRange(first, min(first+8, steps-1)).Draw(rt, "last"),
				Size: rapid.SampledFrom([]int64{0, 4, 64, 100, 500, 1024, 3000}).Draw(rt, "size")})
		}
		total := mustLayout(rt, temps)
		var worst int64
		for i := range steps {
			var now int64
			for _, s := range temps {
				if s.first <= i && i <= s.last {
					now += padded(s)
				}
			}
			worst = max(worst, now)
		}
		if total < worst || total > 2*worst {
			rt.Fatalf("%d bytes, the worst instant needs %d", total, worst)
		}
		for i, a := range temps {
			if a.Off%alignment != 0 || a.Off+a.Size > total {
				rt.Fatalf("storage at [%d,%d) of %d", a.Off, a.Off+a.Size, total)
			}
			for _, b := range temps[:i] {
				together := a.first <= b.last && b.first <= a.last && a.Size > 0 && b.Size > 0
				if together && a.Off < b.Off+b.Size && b.Off < a.Off+a.Size {
					rt.Fatalf("%+v and %+v overlap", *a, *b)
				}
			}
		}
	})
}
