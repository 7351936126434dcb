package sweep

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/rng"
)

const (
	// lag is how many trials back the newest is whose result a trial of strategy tpe follows from: so many can train
	// at once.
	lag = 8

	// startup is how many trials come from the Halton sequence before results count.
	startup = 10

	// candidates is how many points are drawn for a trial; the one that promises most is taken.
	candidates = 24

	// goodShare is the share of trials that count as good.
	goodShare = 0.2
)

// estimate is the next trial of strategy tpe, of index i; ok is false while results are missing.
func (l *list) estimate(i int, trials []Trial) (c combination, ok bool) {
	if i < startup {
		return l.next(), true
	}
	results := make([]result, i-lag+1)
	for k := range results {
		if k >= len(trials) {
			return nil, false
		}
		t := &trials[k]
		switch {
		case len(t.Values) > 0:
			results[k] = result{t.Values[0], l.units[k]}
		case t.Err != nil:
			results[k] = result{math.NaN(), l.units[k]}
		default:
			return nil, false
		}
	}
	lower := configs.LowerIsBetter(l.sweep.Metric)
	slices.SortStableFunc(results, func(a, b result) int { return compareValues(a.value, b.value, lower) })
	split := int(math.Ceil(goodShare * float64(len(results))))
	if !finite(results[split-1].value) { // too few are to learn from
		return l.next(), true
	}
	good, bad := newParzen(l.sweep, results[:split]), newParzen(l.sweep, results[split:])
	best := math.Inf(-1)
	key := rng.Named(l.sweep.Seed, "tpe")
	for k := range candidates {
		units := make([]float64, len(l.sweep.Vary))
		for j := range units {
			w := key.Block(uint32(j), uint32(k), uint32(i), 0)
			units[j] = good[j].sample(rng.Float64(w[0], w[1]), rng.Float64(w[2], w[3]))
		}
		x := l.combine(units)
		if l.seen[keyOf(x)] {
			continue
		}
		gain := 0.0
		for j, v := range x {
			u := toUnit(&l.sweep.Vary[j], v)
			gain += math.Log(good[j].density(u)) - math.Log(bad[j].density(u))
		}
		if gain > best {
			best, c = gain, x
		}
	}
	if c == nil { // all of them were had before
		c = l.next()
	}
	return c, true
}

// result is a trial's point with its value.
type result struct {
	value float64
	units []float64
}

// parzen is a density over [0, 1] that is high near points: of a range, a mean of normal distributions cut off at the
// ends; of a list, shares of its values. One component, which no point makes, is wide.
type parzen struct {
	centers, widths []float64
	heights         []float64 // of each at its center, together 1 below them
	shares          []float64 // of a list
}

// newParzen makes the density along each dimension.
func newParzen(s *configs.Sweep, results []result) []parzen {
	out := make([]parzen, len(s.Vary))
	for j := range out {
		if n := len(s.Vary[j].Values); n > 0 {
			out[j].shares = sharesOf(n, results, j)
			continue
		}
		out[j].centers = append(out[j].centers, 0.5)
		for _, r := range results {
			out[j].centers = append(out[j].centers, r.units[j])
		}
		out[j].setWidths()
	}
	return out
}

// sharesOf counts the values of a list, one more of each than there are.
func sharesOf(n int, results []result, j int) []float64 {
	out := make([]float64, n)
	total := float64(len(results) + n)
	for i := range out {
		out[i] = 1 / total
	}
	for _, r := range results {
		out[min(int(r.units[j]*float64(n)), n-1)] += 1 / total
	}
	return out
}

// setWidths gives a normal distribution the distance to the farther of its neighbours as its deviation.
func (p *parzen) setWidths() {
	n := len(p.centers)
	sorted := slices.Sorted(slices.Values(p.centers))
	least := 1 / min(100, float64(n+1))
	for i, c := range p.centers {
		if i == 0 {
			p.widths = append(p.widths, 1)
			continue
		}
		at, _ := slices.BinarySearch(sorted, c)
		left, right := c, 1-c
		if at > 0 {
			left = c - sorted[at-1]
		}
		if at+1 < n {
			right = sorted[at+1] - c
		}
		p.widths = append(p.widths, min(max(left, right, least), 1))
	}
	for i, c := range p.centers {
		w := p.widths[i]
		inside := normalCDF((1-c)/w) - normalCDF(-c/w)
		p.heights = append(p.heights, 1/(math.Sqrt(2*math.Pi)*w*inside*float64(n)))
	}
}

// normalCDF is the distribution function of the standard normal.
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// density at u.
func (p *parzen) density(u float64) (sum float64) {
	if p.shares != nil {
		return p.shares[min(int(u*float64(len(p.shares))), len(p.shares)-1)]
	}
	for i, c := range p.centers {
		z := (u - c) / p.widths[i]
		sum += p.heights[i] * math.Exp(-z*z/2)
	}
	return sum
}

// sample gives a point of the density for two uniform numbers: which component, and where in it.
func (p *parzen) sample(which, where float64) float64 {
	if p.shares != nil {
		for i, share := range p.shares {
			if which -= share; which < 0 {
				return (float64(i) + 0.5) / float64(len(p.shares))
			}
		}
		return 1
	}
	i := min(int(which*float64(len(p.centers))), len(p.centers)-1)
	c, w := p.centers[i], p.widths[i]
	lo, hi := normalCDF(-c/w), normalCDF((1-c)/w)
	x := c + w*math.Sqrt2*math.Erfinv(2*(lo+where*(hi-lo))-1)
	return min(max(x, 0), 1)
}
