package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/internal/units"
)

// The goal: no row is over mostRatio, and the geometric mean of all is at most meanRatio.
const (
	mostRatio = 1.05
	meanRatio = 0.95
)

// worstShown is the number of rows that a page shows.
const worstShown = 15

// table is the rows of a machine.
type table struct {
	about []string // lines of text: the machine, the libraries, how it was measured
	lines []line
}

// mean is the geometric mean of the ratios; 0 of none.
func mean(lines []line) float64 {
	if len(lines) == 0 {
		return 0
	}
	sum := 0.0
	for _, l := range lines {
		sum += math.Log(l.ratio)
	}
	return math.Exp(sum / float64(len(lines)))
}

// above counts the lines over a ratio.
func above(lines []line, ratio float64) (n int) {
	for _, l := range lines {
		if l.ratio > ratio {
			n++
		}
	}
	return n
}

// worst are the lines with the largest ratios.
func worst(lines []line, n int) []line {
	sorted := slices.SortedStableFunc(slices.Values(lines), func(a, b line) int { return cmp.Compare(b.ratio, a.ratio) })
	return sorted[:min(n, len(sorted))]
}

// part is the lines of a level, a number of threads and a family of kernels.
type part struct {
	name  string
	lines []line
}

// parts divides the lines by level, threads and op, in their order.
func (t table) parts() (ps []part) {
	for _, l := range t.lines {
		op, _, _ := strings.Cut(l.kernel, " ")
		if strings.HasSuffix(l.kernel, "bf16") {
			op += " bf16"
		}
		name := fmt.Sprintf("%s | %d | %s", l.level, l.threads, op)
		i := slices.IndexFunc(ps, func(p part) bool { return p.name == name })
		if i < 0 {
			i, ps = len(ps), append(ps, part{name: name})
		}
		ps[i].lines = append(ps[i].lines, l)
	}
	return ps
}

// verdict compares the table with the goal, in a sentence.
func (t table) verdict() string {
	over, m := above(t.lines, mostRatio), mean(t.lines)
	met := "met"
	if over > 0 || m > meanRatio {
		met = "not met"
	}
	return fmt.Sprintf("%s, geometric mean %.3f, %d over %.2f. The goal, a mean of at most %.2f and none over %.2f, is %s.",
		units.Count(len(t.lines), "row"), m, over, mostRatio, meanRatio, mostRatio, met)
}

// markdown is what a page shows of the table: the verdict, the parts and the worst rows.
func (t table) markdown() string {
	var b strings.Builder
	for _, a := range t.about {
		fmt.Fprintf(&b, "%s\n", a)
	}
	fmt.Fprintf(&b, "\n%s\n\n| level | threads | op | rows | geometric mean | over %.2f | worst |\n", t.verdict(), mostRatio)
	b.WriteString("|---|--:|---|--:|--:|--:|--:|\n")
	for _, p := range t.parts() {
		over, most := above(p.lines, mostRatio), worst(p.lines, 1)[0].ratio
		fmt.Fprintf(&b, "| %s | %d | %.2f | %d | %.2f |\n", p.name, len(p.lines), mean(p.lines), over, most)
	}
	b.WriteString("\nThe rows with the largest ratios:\n\n| kernel | level | threads | Berth | best peer | ratio |\n")
	b.WriteString("|---|---|--:|--:|---|--:|\n")
	for _, l := range worst(t.lines, worstShown) {
		ours, theirs := units.Time(l.sides[berthName].least), units.Time(l.sides[l.peer].least)
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s: %s | %.2f |\n", l.kernel, l.level, l.threads, ours, l.peer, theirs, l.ratio)
	}
	return b.String()
}

// columns are those of the file.
var columns = []string{
	"level", "threads", "kernel", "of", "berth_least_us", "berth_median_us", "onednn_least_us", "onednn_median_us",
	"openblas_least_us", "openblas_median_us",
	"best_peer", "its_way", "ratio", "ratio_of_medians", "ratio_of_rounds", "speed_changed",
}

// write writes the table as CSV, with what is to be known of it in lines that begin with #.
func (t table) write(file string) error {
	var b bytes.Buffer
	for _, a := range t.about {
		fmt.Fprintf(&b, "# %s\n", a)
	}
	w := csv.NewWriter(&b)
	records := [][]string{columns}
	us := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return strconv.FormatFloat(d.Seconds()*1e6, 'f', 1, 64)
	}
	ratio := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	for _, l := range t.lines {
		r := []string{l.level, strconv.Itoa(l.threads), l.kernel, l.uses}
		for _, name := range append([]string{berthName}, peers...) {
			r = append(r, us(l.sides[name].least), us(l.sides[name].median))
		}
		records = append(records, append(r, l.peer, l.how, ratio(l.ratio), ratio(l.ofMedians), ratio(l.ofRounds), ratio(l.unsteady)))
	}
	if err := w.WriteAll(records); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// readTable reads what write has written.
func readTable(file string) (t table, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	for l := range strings.Lines(string(text)) {
		if a, ok := strings.CutPrefix(l, "# "); ok {
			t.about = append(t.about, strings.TrimSpace(a))
		}
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment, r.FieldsPerRecord = '#', len(columns)
	records, err := r.ReadAll()
	if err == nil && (len(records) == 0 || !slices.Equal(records[0], columns)) {
		err = errors.New("other columns than this program writes: measure anew")
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", file, err)
	}
	for _, rec := range records[1:] {
		var errs []error
		number := func(s string) float64 {
			if s == "" {
				return 0
			}
			x, err := strconv.ParseFloat(s, 64)
			errs = append(errs, err)
			return x
		}
		us := func(s string) time.Duration { return time.Duration(math.Round(number(s) * 1e3)) }
		l := line{level: rec[0], threads: int(number(rec[1])), kernel: rec[2], uses: rec[3], peer: rec[10], how: rec[11]}
		l.sides = map[string]turn{}
		for i, name := range append([]string{berthName}, peers...) {
			if s := (turn{us(rec[4+2*i]), us(rec[5+2*i])}); s.least > 0 {
				l.sides[name] = s
			}
		}
		l.ratio, l.ofMedians, l.ofRounds, l.unsteady = number(rec[12]), number(rec[13]), number(rec[14]), number(rec[15])
		if err := errors.Join(errs...); err != nil {
			return t, fmt.Errorf("%s: %w", file, err)
		}
		t.lines = append(t.lines, l)
	}
	return t, nil
}

// The tables of a page stand between these lines.
const (
	begins = "<!-- kernels: written by bench/peers/kernels -->\n"
	ends   = "<!-- end of tables -->"
)

// writePage puts what all tables of a folder show into a page.
func writePage(page, folder string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(text), begins)
	_, after, ok2 := strings.Cut(rest, ends)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s: the lines %q and %q are missing: put them where the tables go", page, strings.TrimSpace(begins), ends)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range files {
		t, err := readTable(f)
		if err != nil {
			return err
		}
		name := filepath.Base(f)
		fmt.Fprintf(&b, "\n[%s](%s/%s): ", strings.TrimSuffix(name, ".csv"), filepath.Base(folder), name)
		b.WriteString(t.markdown())
	}
	return os.WriteFile(page, []byte(before+begins+b.String()+"\n"+ends+after), 0o644)
}
