package sweep

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/rng"
)

// Settings lists the settings of the trials: those of trial i are settings[i-1], in the order of the sweep's
// keys. It has all trials, but with strategy tpe only those up to the first that waits for results; trials is as in
// [Decide].
func Settings(s *configs.Sweep, trials []Trial) (settings [][]configs.Setting) {
	l := newList(s)
	for i := range s.Total() {
		if s.Strategy != configs.StrategyTPE {
			l.add(l.next())
			continue
		}
		if i < len(trials) && trials[i].Settings != nil {
			l.addBegun(trials[i].Settings)
			continue
		}
		c, ok := l.estimate(i, trials)
		if !ok {
			break
		}
		l.add(c)
	}
	return l.settings
}

// Probes lists settings in which each value of each key occurs, and of a range both ends. If the config takes them,
// it takes those of most trials: the others only combine the values in other ways.
func Probes(s *configs.Sweep) (settings [][]configs.Setting) {
	n := 0
	for i := range s.Vary {
		n = max(n, 2, len(s.Vary[i].Values))
	}
	for k := range n {
		c := make([]float64, len(s.Vary))
		for j := range s.Vary {
			if d := &s.Vary[j]; d.Values != nil {
				c[j] = float64(k % len(d.Values))
			} else {
				c[j] = []float64{d.Lo, d.Hi}[k%2]
			}
		}
		settings = append(settings, settingsOf(s, c))
	}
	return settings
}

// A combination has a number for each dimension: the index of a value, or the number of a range.
type combination = []float64

func settingsOf(s *configs.Sweep, c combination) []configs.Setting {
	out := make([]configs.Setting, len(c))
	for j := range c {
		d := &s.Vary[j]
		out[j].Key = d.Key
		if d.Values != nil {
			out[j].Value = d.Values[int(c[j])]
		} else {
			out[j].Value = strconv.FormatFloat(c[j], 'g', -1, 64)
			if d.Whole {
				out[j].Value = strconv.FormatFloat(c[j], 'f', -1, 64)
			}
		}
	}
	return out
}

// list is the trials up to one of them, no combination twice.
type list struct {
	sweep    *configs.Sweep
	draw     func(k int) []float64 // the k-th point of the strategy, in [0, 1) along each dimension; nil: the grid
	drawn    int
	gridded  int
	seen     map[string]bool
	units    [][]float64 // of the trials, for tpe
	settings [][]configs.Setting
}

func newList(s *configs.Sweep) *list {
	l := &list{sweep: s, seen: map[string]bool{}}
	switch s.Strategy {
	case configs.StrategyRandom:
		l.draw = func(k int) []float64 { return uniform(s, k) }
	case configs.StrategyHalton, configs.StrategyTPE:
		l.draw = halton(s)
	}
	return l
}

// uniform is an independent draw for each k and dimension.
func uniform(s *configs.Sweep, k int) []float64 {
	key := rng.Named(s.Seed, "sweep")
	out := make([]float64, len(s.Vary))
	for j := range out {
		w := key.At(uint64(j), uint32(k))
		out[j] = rng.Float64(w[0], w[1])
	}
	return out
}

// add appends a trial.
func (l *list) add(c combination) {
	l.seen[keyOf(c)] = true
	units := make([]float64, len(c))
	for j := range c {
		units[j] = toUnit(&l.sweep.Vary[j], c[j])
	}
	l.units = append(l.units, units)
	l.settings = append(l.settings, settingsOf(l.sweep, c))
}

func keyOf(c combination) string { return fmt.Sprint(c) }

// mostRepeats is how many draws in a row may be ones that were had before.
const mostRepeats = 1000

// next is the strategy's next combination that is not in the list.
func (l *list) next() combination {
	if l.draw != nil {
		for range mostRepeats {
			c := l.combine(l.draw(l.drawn))
			l.drawn++
			if !l.seen[keyOf(c)] {
				return c
			}
		}
	}
	for {
		c := nthOfGrid(l.sweep, l.gridded)
		l.gridded++
		if !l.seen[keyOf(c)] {
			return c
		}
	}
}

// nthOfGrid counts all combinations, the last dimension first. A range of real numbers counts as its lower end: draws from one do
// not repeat often enough to come here.
func nthOfGrid(s *configs.Sweep, n int) combination {
	c := make(combination, len(s.Vary))
	for j := len(c) - 1; j >= 0; j-- {
		d := &s.Vary[j]
		count := max(1, d.Count())
		c[j] = float64(n % count)
		if d.Values == nil {
			c[j] += d.Lo
		}
		n /= count
	}
	return c
}

// combine is the combination at a point.
func (l *list) combine(units []float64) combination {
	c := make(combination, len(units))
	for j, u := range units {
		c[j] = fromUnit(&l.sweep.Vary[j], u)
	}
	return c
}

// fromUnit gives the number of a dimension at u in [0, 1].
func fromUnit(d *configs.Dimension, u float64) float64 {
	switch {
	case d.Values != nil:
		return math.Min(math.Floor(u*float64(len(d.Values))), float64(len(d.Values)-1))
	case d.Whole:
		lo, hi := scale(d, d.Lo), scale(d, d.Hi+1)
		return within(math.Floor(unscale(d, lo+u*(hi-lo))), d)
	}
	lo, hi := scale(d, d.Lo), scale(d, d.Hi)
	return within(rounded(unscale(d, lo+u*(hi-lo)), d.Hi-d.Lo), d)
}

// toUnit is the inverse of fromUnit: the middle of the part of [0, 1] that gives the number.
func toUnit(d *configs.Dimension, v float64) float64 {
	switch {
	case d.Values != nil:
		return (v + 0.5) / float64(len(d.Values))
	case d.Whole:
		lo, hi := scale(d, d.Lo), scale(d, d.Hi+1)
		return (scale(d, v+0.5) - lo) / (hi - lo)
	}
	lo, hi := scale(d, d.Lo), scale(d, d.Hi)
	return (scale(d, v) - lo) / (hi - lo)
}

func scale(d *configs.Dimension, v float64) float64 {
	if d.Log {
		return math.Log(v)
	}
	return v
}

func unscale(d *configs.Dimension, v float64) float64 {
	if d.Log {
		return math.Exp(v)
	}
	return v
}

func within(v float64, d *configs.Dimension) float64 { return min(max(v, d.Lo), d.Hi) }

// digits of a number, or of a range's width, are enough to tell trials apart.
const digits = 6

// rounded is v to six digits of itself, or of width if that is smaller. Without it, settings would have seventeen, the last of them
// different on processors that multiply and add at once.
func rounded(v, width float64) float64 {
	if v == 0 {
		return 0
	}
	magnitude := math.Floor(math.Log10(math.Abs(v)))
	after := digits - 1 + int(max(0, magnitude-math.Floor(math.Log10(width))))
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', after, 64), 64)
	if err != nil {
		return v
	}
	return out
}

// addBegun appends a trial with the settings that it began with.
func (l *list) addBegun(settings []configs.Setting) {
	c := make(combination, len(l.sweep.Vary))
	for j := range c {
		d := &l.sweep.Vary[j]
		text := ""
		if j < len(settings) {
			text = strings.TrimSpace(settings[j].Value)
		}
		c[j] = numberOf(d, text)
	}
	l.add(c)
	l.settings[len(l.settings)-1] = settings
}

// numberOf is the number of a value of the dimension.
func numberOf(d *configs.Dimension, text string) float64 {
	for i, v := range d.Values {
		if v == text {
			return float64(i)
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return d.Lo
	}
	return v
}
