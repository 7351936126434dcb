package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/internal/units"
)

// rounds is the number of turns that each side has at a row. mostRounds is that where the machine changes its speed meanwhile:
// each side then has more chances of a turn at full speed.
const (
	rounds     = 5
	mostRounds = 9
)

// peers are the libraries that Berth is compared with.
var peers = []string{oneDNNName, openBLASName}

// turn is what a side needed in one of its turns.
type turn struct{ least, median time.Duration }

// timing is a row's turns: those of Berth and of the peers that compute it.
type timing struct {
	turns  map[string][]turn // of each round
	how    map[string]string
	probes []time.Duration // one before each round
}

// contest is the sides on one level of instruction sets, with one number of threads.
type contest struct {
	ctx     context.Context
	level   string
	threads int
	seconds float64 // of each side at a row
	folder  string  // for results
	sides   []*process
	missing []error // peers that are not there
}

// begin starts the sides. Peers that are not there are left out, but for all of them.
func (c *contest) begin() error {
	for _, name := range append([]string{berthName}, peers...) {
		p, err := start(c.ctx, name, c.level, c.threads)
		switch {
		case err == nil:
			c.sides = append(c.sides, p)
		case name == berthName:
			return fmt.Errorf("%s: %w", name, err)
		default:
			c.missing = append(c.missing, err)
		}
	}
	if len(c.sides) == 1 {
		return errors.Join(append([]error{errors.New("no library to compare with is installed")}, c.missing...)...)
	}
	return nil
}

func (c *contest) end() error {
	var errs []error
	for _, p := range c.sides {
		errs = append(errs, p.close())
	}
	c.sides = nil
	return errors.Join(errs...)
}

// versions name the sides, as they are on this level.
func (c *contest) versions() string {
	var vs []string
	for _, p := range c.sides {
		if p.name == berthName {
			vs = append(vs, berthName+" on "+p.version)
			continue
		}
		vs = append(vs, p.version)
	}
	return strings.Join(vs, "; ")
}

// revive starts sides anew that have died.
func (c *contest) revive() error {
	for i, p := range c.sides {
		if !p.dead {
			continue
		}
		_ = p.close() // why it died is told
		again, err := start(c.ctx, p.name, c.level, c.threads)
		if err != nil {
			return err
		}
		c.sides[i] = again
	}
	return nil
}

// measure gives the sides their turns at a row. A peer that cannot compute it has none; one that fails has none either,
// and failed says why. A result that differs is an error.
func (c *contest) measure(r *row) (t timing, failed []error, err error) {
	if err := c.revive(); err != nil {
		return t, nil, err
	}
	t.turns, t.how = map[string][]turn{}, map[string]string{}
	var playing []*process
	for _, p := range c.sides {
		a, err := p.ask(request{Prepare: r.name})
		switch {
		case c.ctx.Err() != nil:
			return t, nil, c.ctx.Err()
		case err != nil && p.name == berthName:
			return t, nil, err
		case err != nil:
			failed = append(failed, err)
		case !a.No:
			playing = append(playing, p)
			t.how[p.name] = a.How
		}
	}
	playing, wrong, err := c.check(r, playing)
	failed = append(failed, wrong...)
	if err != nil || len(playing) < 2 {
		return t, failed, err
	}
	lost := map[string]bool{} // peers that failed in a turn
	for round := 0; round < rounds || round < mostRounds && spread(t.probes) > steady; round++ {
		t.probes = append(t.probes, probe())
		for i := range playing {
			p := playing[(i+round)%len(playing)]
			if lost[p.name] {
				continue
			}
			a, err := p.ask(request{Seconds: c.seconds / rounds})
			switch {
			case err == nil:
				t.turns[p.name] = append(t.turns[p.name], turn{a.Least, a.Median})
			case c.ctx.Err() != nil || p.name == berthName:
				return t, failed, errors.Join(c.ctx.Err(), err)
			default:
				lost[p.name] = true
				failed = append(failed, err)
			}
		}
	}
	for name := range lost {
		delete(t.turns, name)
	}
	return t, failed, nil
}

// tolerance is how far results may be apart, as a share of the largest number. Sums of up to 100,000 numbers are taken in
// different orders.
const tolerance = 1e-4

// check compares the results of the peers with Berth's, and leaves out peers that fail.
func (c *contest) check(r *row, playing []*process) (right []*process, failed []error, err error) {
	var berth [][]float32
	for _, p := range playing { // Berth is the first
		file := filepath.Join(c.folder, p.name)
		_, err := p.ask(request{Results: file})
		switch {
		case c.ctx.Err() != nil:
			return nil, failed, c.ctx.Err()
		case err != nil && p.name == berthName:
			return nil, failed, err
		case err != nil:
			failed = append(failed, err)
			continue
		}
		all, err := readResults(file)
		if err := errors.Join(err, os.Remove(file)); err != nil {
			return nil, failed, err
		}
		if p.name == berthName {
			berth = all
		} else if err := same(berth, all); err != nil {
			return nil, failed, fmt.Errorf("%w: %s: %s: %w", errDiffers, r.name, p.name, err)
		}
		right = append(right, p)
	}
	return right, failed, nil
}

// errDiffers is the cause where a peer's results are others than Berth's.
var errDiffers = errors.New("other results")

// same compares results.
func same(want, got [][]float32) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d results, and %d of Berth", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if len(w) != len(g) {
			return fmt.Errorf("result %d has %d numbers, and %d in Berth", i, len(g), len(w))
		}
		largest, apart, at := 0.0, -1.0, 0
		for k, x := range w {
			d := math.Abs(float64(x) - float64(g[k]))
			if math.IsNaN(d) {
				return fmt.Errorf("number %d of result %d is %v, in Berth %v", k, i, g[k], x)
			}
			largest = max(largest, math.Abs(float64(x)))
			if d > apart {
				apart, at = d, k
			}
		}
		if apart > tolerance*largest {
			return fmt.Errorf("number %d of result %d is %v, in Berth %v, the largest one is %v", at, i, g[at], w[at], largest)
		}
	}
	return nil
}

// line is a row of the table.
type line struct {
	level   string
	threads int
	kernel  string
	uses    string
	sides   map[string]turn // the least time of all, and the median of the turns' medians
	peer    string          // the best one
	how     string          // the way it computes
	// ratio is Berth's least time over the best peer's. ofMedians is that of the medians, and ofRounds the median over the rounds
	// of the ratio of the least times of a round.
	ratio, ofMedians, ofRounds float64
	unsteady                   float64 // slowest probe over fastest
}

// summarize makes a line of a row's turns.
func summarize(level string, threads int, r *row, t timing) line {
	l := line{
		level: level, threads: threads, kernel: r.name, uses: strings.Join(r.uses, ", "),
		sides: map[string]turn{}, unsteady: spread(t.probes),
	}
	for name, ts := range t.turns {
		var leasts, medians []time.Duration
		for _, x := range ts {
			leasts, medians = append(leasts, x.least), append(medians, x.median)
		}
		slices.Sort(medians)
		l.sides[name] = turn{slices.Min(leasts), medians[len(medians)/2]}
	}
	berth := t.turns[berthName]
	for _, p := range peers {
		ts := t.turns[p]
		if ts == nil {
			continue
		}
		ratio := over(l.sides[berthName].least, l.sides[p].least)
		if ratio <= l.ratio {
			continue
		}
		var ratios []float64
		for i := range ts {
			ratios = append(ratios, over(berth[i].least, ts[i].least))
		}
		slices.Sort(ratios)
		l.ratio, l.peer, l.how, l.ofRounds = ratio, p, t.how[p], ratios[len(ratios)/2]
		l.ofMedians = over(l.sides[berthName].median, l.sides[p].median)
	}
	return l
}

func over(a, b time.Duration) float64 { return float64(a) / float64(max(1, b)) }

// log tells of a line as it is measured.
func (l line) log(w io.Writer, at, of int) {
	var times []string
	for _, name := range append([]string{berthName}, peers...) {
		if t, ok := l.sides[name]; ok {
			times = append(times, fmt.Sprintf("%s %s", name, units.Time(t.least)))
		}
	}
	flipped := ""
	if l.unsteady > steady {
		flipped = fmt.Sprintf("  (the machine's speed changed by %.0f%% meanwhile)", 100*(l.unsteady-1))
	}
	fmt.Fprintf(w, "%d/%d  %s, %s  %-50s  %.2f  %s%s\n", at, of, l.level, units.Count(l.threads, "thread"), l.kernel, l.ratio,
		strings.Join(times, ", "), flipped)
}
