package host

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
)

// plainLayout is layout, with every storage looked at for every other one.
func plainLayout(temps []*storage) (total int64) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	var placed []*storage
	for _, s := range order {
		if s.size == 0 {
			continue
		}
		g := gaps{need: roundUp(s.size, alignment), best: -1}
		for _, t := range placed {
			if t.last >= s.first && s.last >= t.first {
				g.meet(t.off, t.end())
			}
		}
		if s.off = g.end; g.best >= 0 {
			s.off = g.best
		}
		total = max(total, s.end())
		placed = append(placed, s)
		slices.SortStableFunc(placed, func(a, b *storage) int { return cmp.Compare(a.off, b.off) })
	}
	return total
}

func mustLayout(t rapid.TB, temps []*storage) int64 {
	t.Helper()
	total, err := layout(temps, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// deepTemps is the temporaries of a model of that many layers: per layer, values of
// several sizes that backward reads, and others that die at once.
func deepTemps(layers int) []*storage {
	var temps []*storage
	steps := 20 * layers
	for l := range layers {
		for k := range int64(4) {
			temps = append(temps,
				&storage{size: 1000 + 300*k, first: 10*l + int(k), last: steps - 10*l - int(k)},
				&storage{size: 900 + 300*k, first: 10*l + int(k), last: 10*l + int(k) + 2},
				&storage{size: 800 + 300*k, first: steps - 10*l - 5, last: steps - 10*l - int(k)})
		}
	}
	return temps
}

// equalTemps is like deepTemps, but all values have one of two sizes: in order of
// size, those that live for long alternate with those that die at once.
func equalTemps(layers int) []*storage {
	var temps []*storage
	steps := 20 * layers
	for l := range layers {
		for k := range 3 {
			size := int64(1024 << (k % 2))
			temps = append(temps,
				&storage{size: size, first: 10*l + k, last: steps - 10*l - k},
				&storage{size: size, first: 10*l + k, last: 10*l + k + 2},
				&storage{size: size, first: steps - 10*l - 5, last: steps - 10*l - k})
		}
	}
	return temps
}

// The offsets are those of the plain way, on random lives and on deep models'.
func TestLayoutIsThePlainOne(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	check := func(temps []*storage) {
		t.Helper()
		want := plainLayout(temps)
		var offs []int64
		for _, s := range temps {
			offs = append(offs, s.off)
			s.off = -1
		}
		if got := mustLayout(t, temps); got != want {
			t.Fatalf("%d bytes, the plain way takes %d", got, want)
		}
		for i, s := range temps {
			if s.size > 0 && s.off != offs[i] {
				t.Fatalf("storage %d is at %d, the plain way puts it at %d", i, s.off, offs[i])
			}
		}
	}
	for range 20 {
		var temps []*storage
		sizes := 1 + rng.Int64N(2000)
		for range rng.IntN(600) {
			first := rng.IntN(300)
			temps = append(temps, &storage{size: rng.Int64N(sizes), first: first, last: first + rng.IntN(1+rng.IntN(100))})
		}
		check(temps)
	}
	for range 4 { // enough for nodes of nodes
		var temps []*storage
		steps := 1 + rng.IntN(4000)
		for range 1500 {
			first := rng.IntN(steps)
			long := rng.IntN(1 + []int{4, 40, steps}[rng.IntN(3)])
			temps = append(temps, &storage{size: 64 << rng.IntN(1+rng.IntN(6)), first: first, last: min(first+long, steps)})
		}
		check(temps)
	}
	check(deepTemps(80))
	check(equalTemps(100))
}

// Twice as deep a model takes little more than twice the work.
func TestLayoutOfDeepModels(t *testing.T) {
	for name, temps := range map[string]func(layers int) []*storage{"several sizes": deepTemps, "two sizes": equalTemps} {
		_, once, _ := layOut(temps(2000), stop.When(nil))
		_, more, _ := layOut(temps(8000), stop.When(nil))
		if ratio := float64(more) / float64(once); ratio > 6 {
			t.Errorf("%s: %d looks at 2000 layers and %d at 8000, %.1f times as many: 4 layers for 1 should take less than 6 for 1", name, once, more, ratio)
		}
	}
}

// A long layout ends where it is told to stop.
func TestLayoutStops(t *testing.T) {
	stopped, asked := errors.New("stopped"), 0
	_, err := layout(deepTemps(2000), stop.When(func() error {
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
		var temps []*storage
		for range rapid.IntRange(0, 40).Draw(rt, "temporaries") {
			first := rapid.IntRange(0, steps-1).Draw(rt, "first")
			temps = append(temps, &storage{class: ofTemp, first: first,
				last: rapid.IntRange(first, min(first+8, steps-1)).Draw(rt, "last"),
				size: rapid.SampledFrom([]int64{0, 4, 64, 100, 500, 1024, 3000}).Draw(rt, "size")})
		}
		total := mustLayout(rt, temps)
		var worst int64
		for i := range steps {
			var now int64
			for _, s := range temps {
				if s.first <= i && i <= s.last {
					now += roundUp(s.size, alignment)
				}
			}
			worst = max(worst, now)
		}
		if total < worst || total > 2*worst {
			rt.Fatalf("%d bytes, the worst instant needs %d", total, worst)
		}
		for i, a := range temps {
			if a.off%alignment != 0 || a.off+a.size > total {
				rt.Fatalf("storage at [%d,%d) of %d", a.off, a.off+a.size, total)
			}
			for _, b := range temps[:i] {
				together := a.first <= b.last && b.first <= a.last && a.size > 0 && b.size > 0
				if together && a.off < b.off+b.size && b.off < a.off+a.size {
					rt.Fatalf("%+v and %+v overlap", *a, *b)
				}
			}
		}
	})
}
