// Command precision trains two shipped configs in float32 and in bf16 and draws
// their losses into docs/precision.svg.
//
//	cd bench/peers
//	go run ./precision                  # some five minutes
//	go run ./precision -runs /tmp/runs  # keep the runs, or draw those that are there
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/berth-ml/berth/internal/svg"
)

// runs are the configs to train, and the steps from one logged loss to the next.
var runs = []struct {
	config string
	every  int
}{{"digits", 45}, {"shakespeare", 50}}

// precisions have their lines. The first is drawn wide, so that the second
// does not hide it.
var precisions = []svg.Entry{
	{Words: "float32", Style: svg.Style{Stroke: svg.Orange.Mixed(svg.White, 0.4), Width: 4}},
	{Words: "bf16", Style: svg.Style{Stroke: svg.Blue, Width: svg.ThinLine}},
}

// The sizes of the picture, in pixels.
const (
	gap           = 24.0
	panel, height = 430.0, 370.0
)

func main() {
	root := flag.String("root", "../..", "folder of Berth's source")
	folder := flag.String("runs", "", "folder of the runs; those that are finished are not repeated (default a temporary one)")
	flag.Parse()
	if err := run(*root, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "precision:", err)
		os.Exit(1)
	}
}

func run(root, folder string) error {
	if folder == "" {
		dir, err := os.MkdirTemp("", "precision")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		folder = dir
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	p := &svg.Picture{Title: "Training losses in float32 and bf16", Width: 2*svg.Margin + float64(len(runs))*(panel+gap) - gap, Height: height}
	p.Heading()
	top := p.Legend(svg.Margin, svg.HeadingHigh, p.Width-2*svg.Margin, precisions...) + 12
	for i, r := range runs {
		var lines [][]svg.Point
		for _, precision := range precisions {
			dir := filepath.Join(folder, r.config+"-"+precision.Words)
			points, err := losses(root, dir, r.config, precision.Words, r.every)
			if err != nil {
				return err
			}
			lines = append(lines, points)
		}
		draw(p, svg.Box{X: svg.Margin + float64(i)*(panel+gap), Y: top, W: panel, H: height - top - svg.Margin/2}, r.config, lines)
	}
	return os.WriteFile(filepath.Join(root, "docs", "precision.svg"), []byte(p.String()), 0o644)
}

// draw draws the losses of a config in all precisions.
func draw(p *svg.Picture, at svg.Box, config string, lines [][]svg.Point) {
	var end, most float64
	for _, line := range lines {
		for _, x := range line {
			end, most = max(end, x.X), max(most, x.Y)
		}
	}
	plot := p.Axes(svg.Axes{
		Box: at, Title: config,
		X: svg.Axis{Label: "step", High: end, Ticks: svg.WholeTicks(0, end, 6)},
		Y: svg.Axis{Label: "training loss", High: 1.04 * most, Ticks: svg.Ticks(0, most, 7)},
	})
	for i, line := range lines {
		plot.Line(line, precisions[i].Style)
	}
}

// losses reads the losses that a run logged. It starts the run first, unless the
// run's report is there, which is written last.
func losses(root, dir, config, precision string, every int) ([]svg.Point, error) {
	if _, err := os.Stat(filepath.Join(dir, "report.json")); errors.Is(err, fs.ErrNotExist) {
		c := exec.Command("go", "-C", root, "run", "./cmd/trainer", "train", config, "--run", dir, "--fresh", "--quiet",
			"--set", "precision="+precision, "--set", fmt.Sprint("train.log_every=", every))
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", config, precision, err)
		}
	}
	f, err := os.Open(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []svg.Point
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var m struct {
			Step int
			Loss *float64 // only in the lines of steps
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		if m.Loss != nil {
			points = append(points, svg.Point{X: float64(m.Step), Y: *m.Loss})
		}
	}
	return points, lines.Err()
}
