package paging

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// brute is the least cost of giving up shares of objects in their gaps, by trying
// every choice in steps of part bytes; -1 if there are more than most choices.
func brute(t *Trace, limit, part int64, most int) int64 {
	gaps := t.gaps()
	choices := 1
	for _, g := range gaps {
		if choices *= int(t.Objects[g.object].Bytes/part) + 1; choices > most {
			return -1
		}
	}
	given := make([]int64, len(gaps))
	best := int64(-1)
	var try func(i int)
	try = func(i int) {
		if i == len(gaps) {
			if c := costOf(t, gaps, given, limit); c >= 0 && (best < 0 || c < best) {
				best = c
			}
			return
		}
		for given[i] = 0; given[i] <= t.Objects[gaps[i].object].Bytes; given[i] += part {
			try(i + 1)
		}
	}
	try(0)
	return best
}

// costOf is the bytes that move; -1 if the launches do not fit.
func costOf(t *Trace, gaps []gap, given []int64, limit int64) (cost int64) {
	n := len(t.Launches)
	used := make([]int64, n)
	for i := range t.Launches {
		used[i] = t.Lease(&t.Launches[i])
	}
	out := map[[2]int]int64{}
	for i, g := range gaps {
		for k := range g.count {
			used[(g.first+k)%n] += t.Objects[g.object].Bytes - given[i]
		}
		if g.loads {
			cost += given[i]
		}
		if w := [2]int{g.object, g.write}; g.write >= 0 && given[i] > out[w] {
			cost += given[i] - out[w]
			out[w] = given[i]
		}
	}
	for _, u := range used {
		if u > limit {
			return -1
		}
	}
	return cost
}

// Without contents that go around, and with one gap per write, everything about
// the flow is whole: the bound is what the best choice moves, byte for byte.
func TestBoundIsTheBestChoice(t *testing.T) {
	compared := 0
	for seed := range int64(testall.Or(1500, 3000)) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 6, 8)
		for i := range tr.Objects {
			if tr.Objects[i].Lasting {
				tr.Objects[i].Lasting, tr.Objects[i].Fed = false, true
			}
		}
		if !oneGapPerWrite(tr) {
			continue
		}
		compared += compare(t, seed, tr)
	}
	if compared < 300 {
		t.Errorf("only %d bounds were compared", compared)
	}
}

func oneGapPerWrite(t *Trace) bool {
	seen := map[[2]int]bool{}
	for _, g := range t.gaps() {
		w := [2]int{g.object, g.write}
		if g.write >= 0 && seen[w] {
			return false
		}
		seen[w] = true
	}
	return true
}

// compare compares bounds with the best choices at limits above the floor.
func compare(t *testing.T, seed int64, tr *Trace) (compared int) {
	t.Helper()
	peak := Replay(tr, 0, NextUse).Peak
	for limit := tr.Floor(); limit <= peak; limit += Align {
		want := brute(tr, limit, Align, 20000)
		if want < 0 {
			continue
		}
		if got := Bound(tr, limit); got != want {
			t.Errorf("seed %d: limit %d: bound %d, the best choice moves %d", seed, limit, got, want)
		}
		if want > 0 {
			compared++
		}
	}
	return compared
}

// In general, the best choice gives up halves and smaller shares. A linear
// program knows it exactly.
func TestBoundIsTheLinearProgram(t *testing.T) {
	compared := 0
	for seed := range int64(800) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 5, 7)
		for limit := tr.Floor(); limit <= Replay(tr, 0, NextUse).Peak; limit += Align {
			want, got := linear(tr, limit), float64(Bound(tr, limit))
			if got > want+1 || got < want*0.998-1 {
				t.Errorf("seed %d: limit %d: bound %v, the program's optimum is %v", seed, limit, got, want)
			}
			if want > 0 {
				compared++
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d bounds were compared", compared)
	}
}

// linear solves the bound's linear program through its dual: per launch a price p
// of memory, per gap a price q of giving up the whole object and a share r of its
// copy out. It maximizes demand·p − bytes·q. The p of a gap's launches, less its q
// and r, are at most 1 if the gap loads, else 0; the r of a write's gaps are at
// most 1 in all. No price is below 0.
func linear(t *Trace, limit int64) float64 {
	gaps, n := t.gaps(), len(t.Launches)
	k := len(gaps)
	writes := map[[2]int]int{}
	for _, g := range gaps {
		if w := [2]int{g.object, g.write}; g.write >= 0 {
			if _, known := writes[w]; !known {
				writes[w] = len(writes)
			}
		}
	}
	gain := make([]float64, n+2*k)
	for i := range t.Launches {
		gain[i] = float64(t.Lease(&t.Launches[i]) - limit)
	}
	rows := make([][]float64, k+len(writes)) // a row ends with its right side
	for i := range rows {
		rows[i] = make([]float64, n+2*k+1)
	}
	for i, g := range gaps {
		size := float64(t.Objects[g.object].Bytes)
		for j := range g.count {
			gain[(g.first+j)%n] += size
			rows[i][(g.first+j)%n]++
		}
		gain[n+i] = -size
		rows[i][n+i] = -1
		if g.loads {
			rows[i][n+2*k] = 1
		}
		if g.write >= 0 {
			w := rows[k+writes[[2]int{g.object, g.write}]]
			rows[i][n+k+i] = -1
			w[n+k+i], w[n+2*k] = 1, 1
		}
	}
	return maximize(gain, rows)
}

// maximize is the simplex method on a dense tableau, with Bland's rule. Variables
// are at least 0, and the rows at most their right sides, which are at least 0.
func maximize(gain []float64, rows [][]float64) float64 {
	n, basis := len(gain), make([]int, len(rows))
	for i := range rows {
		slack := make([]float64, len(rows))
		slack[i] = 1
		rows[i] = append(append(rows[i][:n:n], slack...), rows[i][n])
		basis[i] = n + i
	}
	gain = append(gain[:n:n], make([]float64, len(rows)+1)...)
	last := len(gain) - 1
	for {
		enter := slices.IndexFunc(gain[:last], func(g float64) bool { return g > 1e-9 })
		if enter < 0 {
			return -gain[last]
		}
		leave, least := -1, math.Inf(1)
		for i, r := range rows {
			if r[enter] < 1e-9 {
				continue
			}
			ratio := r[last] / r[enter]
			if leave < 0 || ratio < least-1e-12 || ratio < least+1e-12 && basis[i] < basis[leave] {
				leave, least = i, ratio
			}
		}
		if leave < 0 {
			return math.Inf(1)
		}
		basis[leave] = enter
		pivot := rows[leave][enter]
		for j := range rows[leave] {
			rows[leave][j] /= pivot
		}
		for i, r := range rows {
			if i != leave {
				subtract(r, rows[leave], r[enter])
			}
		}
		subtract(gain, rows[leave], gain[enter])
	}
}

func subtract(row, other []float64, times float64) {
	for i := range row {
		row[i] -= times * other[i]
	}
}

// No replay moves less than the bound.
func TestReplayMovesAtLeastTheBound(t *testing.T) {
	for seed := range int64(400) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 9, 14)
		for limit := tr.Floor(); limit <= Replay(tr, 0, NextUse).Peak; limit += 2 * Align {
			if r, b := Replay(tr, limit, NextUse), Bound(tr, limit); r.Moved() < b {
				t.Errorf("seed %d: limit %d: moved %d, bound %d", seed, limit, r.Moved(), b)
			}
		}
	}
}
