package sweep

import (
	"math"
	"reflect"
	"strconv"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/internal/testall"
)

// problem is a smooth function whose least value is looked for.
type problem struct {
	name string
	vary []configs.Dimension
	f    func(x []float64) float64
}

func square(x float64) float64 { return x * x }

var problems = []problem{
	// Like a loss: the learning rate by magnitude, an optimum inside, one key of little effect.
	{"bowl", []configs.Dimension{{Key: "a", Lo: 1e-5, Hi: 1, Log: true}, {Key: "b", Lo: 0, Hi: 1}, {Key: "c", Lo: 1, Hi: 100, Whole: true, Log: true}},
		func(x []float64) float64 {
			return square(math.Log10(x[0])+2.3) + 4*square(x[1]-0.3) + 0.1*square(math.Log10(x[2])-1.5)
		}},
	// Branin and Hoo, with three equal minima.
	{"branin", []configs.Dimension{{Key: "a", Lo: -5, Hi: 10}, {Key: "b", Lo: 0, Hi: 15}},
		func(x []float64) float64 {
			return square(x[1]-5.1/(4*math.Pi*math.Pi)*square(x[0])+5/math.Pi*x[0]-6) + 10*(1-1/(8*math.Pi))*math.Cos(x[0]) + 10
		}},
	// Hartmann's function of three dimensions, with four minima of which one is the least.
	{"hartmann", []configs.Dimension{{Key: "a", Lo: 0, Hi: 1}, {Key: "b", Lo: 0, Hi: 1}, {Key: "c", Lo: 0, Hi: 1}},
		func(x []float64) float64 {
			alpha := []float64{1, 1.2, 3, 3.2}
			a := [][]float64{{3, 10, 30}, {0.1, 10, 35}, {3, 10, 30}, {0.1, 10, 35}}
			p := [][]float64{{0.3689, 0.1170, 0.2673}, {0.4699, 0.4387, 0.7470}, {0.1091, 0.8732, 0.5547}, {0.0381, 0.5743, 0.8828}}
			sum := 0.0
			for i := range alpha {
				inner := 0.0
				for j := range x {
					inner += a[i][j] * square(x[j]-p[i][j])
				}
				sum -= alpha[i] * math.Exp(-inner)
			}
			return sum
		}},
}

// least is the best value that a sweep of n trials finds.
func least(p problem, strategy string, seed uint64, n int) float64 {
	s := &configs.Sweep{Vary: p.vary, Trials: []int{n}, Strategy: strategy, Metric: "val_loss", Seed: seed, Keep: 1}
	trials := make([]Trial, n)
	best := math.Inf(1)
	for range n {
		next := Decide(s, trials).Ready[0]
		t := &trials[next.Trial-1]
		t.Settings = next.Settings
		var x []float64
		for _, setting := range t.Settings {
			v, err := strconv.ParseFloat(setting.Value, 64)
			if err != nil {
				panic(err)
			}
			x = append(x, v)
		}
		v := p.f(x)
		t.Values = []float64{v}
		best = min(best, v)
	}
	return best
}

// TestTPEBeatsRandom compares the best of 40 trials over seeds: the mean rank, 1 for the better and 2 for the other.
func TestTPEBeatsRandom(t *testing.T) {
	testall.Long(t)
	const seeds = 20
	for _, p := range problems {
		ranks, halton := 0, 0
		for seed := range uint64(seeds) {
			tpe, random := least(p, configs.StrategyTPE, seed, 40), least(p, configs.StrategyRandom, seed, 40)
			ranks++
			if tpe > random {
				ranks++
			}
			halton++
			if tpe > least(p, configs.StrategyHalton, seed, 40) {
				halton++
			}
		}
		mean := float64(ranks) / seeds
		t.Logf("%s: mean rank %.2f beside random, %.2f beside halton", p.name, mean, float64(halton)/seeds)
		if mean > 1.4 {
			t.Errorf("%s: mean rank %.2f", p.name, mean)
		}
	}
}

// TestTPEAvoidsFailures: values with which trials fail, or have no finite value, are chosen seldom.
func TestTPEAvoidsFailures(t *testing.T) {
	testall.Long(t)
	s := &configs.Sweep{Strategy: configs.StrategyTPE, Metric: "val_accuracy", Keep: 1, Trials: []int{40},
		Vary: []configs.Dimension{{Key: "a", Values: []string{"good", "fails", "nan", "worse"}}, {Key: "b", Lo: 0, Hi: 1}}}
	chosen, of := 0, 0
	for seed := range uint64(20) {
		s.Seed = seed
		trials := make([]Trial, 40)
		for i := range trials {
			t := &trials[i]
			t.Settings = Settings(s, trials)[i]
			switch t.Settings[0].Value {
			case "good":
				t.Values = []float64{0.9}
				if i >= startup+lag {
					chosen++
				}
			case "fails":
				t.Err = errTraining
			case "nan":
				t.Values = []float64{math.NaN()}
			case "worse":
				t.Values = []float64{0.2}
			}
			if i >= startup+lag {
				of++
			}
		}
	}
	if share := float64(chosen) / float64(of); share < 0.5 {
		t.Errorf("the good one of four values has %.2f of the trials", share)
	}
}

// TestTPEWithoutResults: while every trial fails, the points are those of the Halton sequence.
func TestTPEWithoutResults(t *testing.T) {
	failed := make([]Trial, 30)
	for i := range failed {
		failed[i].Err = errTraining
	}
	if got, want := Settings(simple(30, tpe), failed), Settings(simple(30), nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestParzen: a density is one over [0, 1], and its samples are distributed so.
func TestParzen(t *testing.T) {
	s := &configs.Sweep{Vary: []configs.Dimension{{Lo: 0, Hi: 1}, {Values: []string{"a", "b", "c"}}}}
	for _, points := range [][]float64{nil, {0.5}, {0.02, 0.03, 0.9}, {0, 1, 1, 0.4}} {
		var results []result
		for _, p := range points {
			results = append(results, result{0, []float64{p, p}})
		}
		for j, p := range newParzen(s, results) {
			const parts, draws = 30, 30_000
			var expected, got [parts]float64
			sum := 0.0
			for i := range parts * 100 {
				d := p.density((float64(i) + 0.5) / (parts * 100))
				sum += d / (parts * 100)
				expected[i/100] += d / (parts * 100)
			}
			if j == 1 { // shares of three values
				sum /= 1. / 3
				for i := range expected {
					expected[i] = 0
				}
				for i, share := range p.shares {
					expected[i*10+5] = share
				}
			}
			if math.Abs(sum-1) > 1e-3 {
				t.Errorf("%v: the density has an area of %v", points, sum)
			}
			for i := range draws {
				w := rng.NewKey(1, 2).At(uint64(i), 0)
				got[min(int(p.sample(rng.Float64(w[0], w[1]), rng.Float64(w[2], w[3]))*parts), parts-1)] += 1. / draws
			}
			for i := range got {
				if math.Abs(got[i]-expected[i]) > 0.01 {
					t.Errorf("%v: %.4f of the samples are in part %d of %d, and %.4f of the density", points, got[i], i, parts, expected[i])
				}
			}
		}
	}
}
