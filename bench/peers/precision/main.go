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
	"image/color"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// runs are the configs to train, and the steps from one logged loss to the next.
var runs = []struct {
	config string
	every  int
}{{"digits", 45}, {"shakespeare", 50}}

// precisions have their colours. The first is drawn wide, so that the second
// does not hide it.
var precisions = []struct {
	name  string
	width vg.Length
	ink   color.Color
}{
	{"float32", vg.Points(3), color.RGBA{R: 0xf5, G: 0xb5, B: 0x8f, A: 0xff}},
	{"bf16", vg.Points(1), color.RGBA{R: 0x1b, G: 0x5e, B: 0x9b, A: 0xff}},
}

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
	var plots []*plot.Plot
	for _, r := range runs {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = r.config, "step", "training loss"
		p.Y.Min, p.Legend.Top, p.Legend.Padding = 0, true, vg.Millimeter
		p.Add(plotter.NewGrid())
		for _, precision := range precisions {
			dir := filepath.Join(folder, r.config+"-"+precision.name)
			points, err := losses(root, dir, r.config, precision.name, r.every)
			if err != nil {
				return err
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return err
			}
			line.Color, line.Width = precision.ink, precision.width
			p.Add(line)
			p.Legend.Add(" "+precision.name, line)
		}
		plots = append(plots, p)
	}
	return save(filepath.Join(root, "docs", "precision.svg"), plots)
}

// losses reads the losses that a run logged. It starts the run first, unless the
// run's report is there, which is written last.
func losses(root, dir, config, precision string, every int) (plotter.XYs, error) {
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
	var points plotter.XYs
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
			points = append(points, plotter.XY{X: float64(m.Step), Y: *m.Loss})
		}
	}
	return points, lines.Err()
}

// save draws plots side by side.
func save(file string, plots []*plot.Plot) error {
	c := vgsvg.New(24*vg.Centimeter, 9*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Centimeter, PadRight: 3 * vg.Millimeter}
	for i, canvas := range plot.Align([][]*plot.Plot{plots}, tiles, draw.New(c))[0] {
		plots[i].Draw(canvas)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = c.WriteTo(f)
	return errors.Join(err, f.Close())
}
