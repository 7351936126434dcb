package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/bench/peers/usage"
	"github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/internal/units"
)

// options are the command's flags.
type options struct {
	only    string
	seconds float64
	write   bool
}

// docs is the folder of the pages, from bench/peers.
const docs = "../../docs"

func main() {
	if isSide() {
		if err := serveSide(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.only, "only", "", "measure only rows that match this regular expression, by kernel or by use: conv2d, 'gpt2 dw'")
	flag.Float64Var(&o.seconds, "seconds", 0.3, "time to measure each side for, at each row")
	flag.BoolVar(&o.write, "write", false, "write the table of this machine into docs/kernels, and a summary into performance.md")
	flag.Parse()
	runtime.LockOSThread() // sides end with this thread
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

// run measures and prints.
func run(ctx context.Context, o options, args []string, log io.Writer) error {
	rows, err := chosen(o, args)
	if err != nil {
		return err
	}
	levels, err := levelsHere()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	m := &meter{options: o, log: log, folder: folder, commit: commit()}
	began, before := time.Now(), usage.Read()
	err = m.levels(ctx, levels, rows)
	m.table.about = m.about(usage.Read().OthersSince(before), time.Since(began))
	if len(m.table.lines) > 0 {
		fmt.Fprintf(log, "\n%s", m.table.markdown())
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: these are the rows until now")
	case err != nil:
		return err
	case len(m.differ) > 0:
		return fmt.Errorf("results differ, so these rows are left out: %w", errors.Join(m.differ...))
	}
	if !o.write {
		return nil
	}
	file := filepath.Join(docs, "kernels", fileName())
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), m.table.write(file)); err != nil {
		return err
	}
	return writePage(filepath.Join(docs, "performance.md"), filepath.Dir(file))
}

// chosen are the rows that the flags choose.
func chosen(o options, args []string) ([]*row, error) {
	switch {
	case len(args) > 0:
		return nil, fmt.Errorf("%q: there are flags alone", args[0])
	case !(o.seconds > 0 && o.seconds <= 3600):
		return nil, errors.New("-seconds must be more than 0, and 3600 at most")
	case o.write && (o.only != "" || os.Getenv(cpu.ISAVariable) != ""):
		return nil, fmt.Errorf("-write goes without -only and %s: the table of a machine has all rows and levels", cpu.ISAVariable)
	}
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	if _, err := os.Stat(filepath.Join(docs, "performance.md")); o.write && err != nil {
		return nil, fmt.Errorf("-write: run this in bench/peers: %w", err)
	}
	all, err := allRows()
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(all, func(r *row) bool {
		return !pattern.MatchString(r.name) && !slices.ContainsFunc(r.uses, pattern.MatchString)
	})
	if len(rows) == 0 {
		return nil, fmt.Errorf("-only %q matches no row, such as %q of %q", o.only, "conv2d 8x64x56x56 64x64x3x3", "resnet-50 y")
	}
	return rows, nil
}

// levelsHere are the levels of instruction sets to measure: what BERTH_CPU says, or all that this CPU has. Plain Go has no
// peer where there is another.
func levelsHere() (levels []string, err error) {
	if name := os.Getenv(cpu.ISAVariable); name != "" {
		if _, err := isa.Parse(name); err != nil {
			return nil, fmt.Errorf("%s: %w", cpu.ISAVariable, err)
		}
		return []string{name}, nil
	}
	for set := min(isa.AVX2, isa.Best()); set <= isa.Best(); set++ {
		levels = append(levels, set.String())
	}
	return levels, nil
}

// rowsOn are the rows of a level: those of bfloat16 where both have instructions for it.
func rowsOn(level string, rows []*row) []*row {
	if level == "amx" || level == "avx512" && isa.PairsPay() {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), (*row).bf16)
}

// meter measures rows into a table.
type meter struct {
	options
	log      io.Writer
	folder   string
	commit   string
	table    table
	versions []string
	notes    []string
	differ   []error // rows whose results differ
	alone    []string
}

// levels measures rows on some levels.
func (m *meter) levels(ctx context.Context, levels []string, rows []*row) error {
	for _, level := range levels {
		if len(rowsOn(level, rows)) < len(rows) {
			m.notes = append(m.notes, fmt.Sprintf("%s has no instructions for products of bfloat16.", level))
		}
		for threads := 1; threads <= min(2, runtime.NumCPU()); threads++ {
			if err := m.all(ctx, level, threads, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// all measures rows on a level with so many threads.
func (m *meter) all(ctx context.Context, level string, threads int, rows []*row) (err error) {
	c := &contest{ctx: ctx, level: level, threads: threads, seconds: m.seconds, folder: m.folder}
	defer func() { err = errors.Join(err, c.end()) }()
	if err := c.begin(); err != nil {
		return err
	}
	if threads == 1 {
		fmt.Fprintln(m.log, c.versions())
		m.versions = append(m.versions, c.versions())
		for _, e := range c.missing {
			fmt.Fprintln(m.log, "left out:", e)
		}
	}
	rows = rowsOn(level, rows)
	for i, r := range rows {
		t, failed, err := c.measure(r)
		for _, e := range failed {
			fmt.Fprintf(m.log, "%s: %v\n", r.name, e)
			m.notes = append(m.notes, strings.ReplaceAll(fmt.Sprintf("%s on %s: %v", r.name, level, e), "\n", "; "))
		}
		switch {
		case errors.Is(err, errDiffers):
			fmt.Fprintln(m.log, err)
			m.differ = append(m.differ, err)
		case err != nil:
			return err
		case len(t.turns) < 2:
			fmt.Fprintf(m.log, "%d/%d  %s: no peer computes it\n", i+1, len(rows), r.name)
			m.alone = append(m.alone, r.name)
		default:
			l := summarize(level, threads, r, t)
			l.log(m.log, i+1, len(rows))
			m.table.lines = append(m.table.lines, l)
		}
	}
	return nil
}

// about tells of the machine, the libraries and the measurement.
func (m *meter) about(others float64, took time.Duration) []string {
	lines := []string{
		fmt.Sprintf("%s, commit %s, %s.", machine(), m.commit, runtime.Version()),
		strings.Join(m.versions, ". ") + ".",
		fmt.Sprintf("%s, in %d turns or more of %.2g s of each side, within %s. Other programs took %.0f%% of the processors.",
			units.Count(len(m.table.lines), "row"), rounds, m.seconds/rounds, took.Round(time.Second), 100*others),
	}
	flipped, most := 0, 1.0
	for _, l := range m.table.lines {
		if l.unsteady > steady {
			flipped++
		}
		most = max(most, l.unsteady)
	}
	if flipped > 0 {
		lines = append(lines, fmt.Sprintf("The machine changed its speed by more than %.0f%% within %s, by up to %.0f%%.", 100*(steady-1),
			units.Count(flipped, "row"), 100*(most-1)))
	}
	if len(m.alone) > 0 {
		lines = append(lines, "No peer computes "+strings.Join(m.alone, ", ")+".")
	}
	return append(lines, m.notes...)
}

// machine describes the machine.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}

// processor is the model of the CPU, with its numbers, which tell apart what has one name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	fields := map[string]string{}
	for l := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(l, ":"); ok && fields[strings.TrimSpace(k)] == "" {
			fields[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	if fields["model name"] == "" {
		return "unknown CPU"
	}
	return fmt.Sprintf("%s (family %s, model %s)", fields["model name"], fields["cpu family"], fields["model"])
}

// fileName is that of this machine's table.
func fileName() string {
	words := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(processor()), "-")
	return strings.Trim(words, "-") + "-" + isa.Best().String() + ".csv"
}

// commit is that of Berth.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
