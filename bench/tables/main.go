package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	_ "github.com/berth-ml/berth/engine/device/cpu"
)

func main() {
	out := flag.String("out", "", "folder for the tables, the configs and the runs (required)")
	seed := flag.Uint64("seed", 1, "seed of the tables")
	flag.Parse()
	if *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// run writes the tables into the folder and prints the result of each model.
func run(folder string, seed uint64) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.save(folder, seed); err != nil {
			return err
		}
		for _, m := range models {
			metric, value, err := t.score(context.Background(), folder, m)
			if err != nil {
				return err
			}
			fmt.Printf("%-10s  %-12s  %s %.4f\n", t.name, m.name, metric, value)
		}
	}
	return nil
}

// save writes the rows to train on, those to judge by, and a config for each model.
func (t table) save(folder string, seed uint64) error {
	train, test := t.files(seed)
	files := map[string][]byte{t.name + ".csv": train, t.name + "-test.csv": test}
	for _, m := range models {
		files[t.config(m)] = fmt.Appendf(nil, `data:
  source: csv
  path: %s.csv
  label: %s
  task: %s
  split: {test: %s-test.csv}
model: {preset: mlp, hidden: %s}
train: {epochs: %d, batch: 50, metrics: [%s]}
optimizer: {name: adamw, lr: 0.01, weight_decay: %g}
schedule: {name: cosine}
`, t.name, t.label, t.task, t.name, m.hidden, m.epochs, t.metric(), m.decay)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// model is one that is compared.
type model struct {
	name, hidden string
	epochs       int
	decay        float64
}

var models = []model{
	{"linear", "[]", 40, 0},
	{"mlp", "[32, 16]", 30, 0.3},
}

func (t table) config(m model) string { return t.name + "-" + m.name + ".yaml" }

// metric is what the test part is judged by.
func (t table) metric() string {
	if t.task == "regression" {
		return "r2"
	}
	return "f1"
}

// score trains the model and judges it over the test part.
func (t table) score(ctx context.Context, folder string, m model) (string, float64, error) {
	cfg, err := configs.Load(filepath.Join(folder, t.config(m)), configs.Overlay{})
	if err != nil {
		return "", 0, err
	}
	r, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	report, err := r.Train(ctx, berth.TrainOptions{Dir: filepath.Join(folder, t.name+"-"+m.name), Fresh: true})
	if err != nil {
		return "", 0, err
	}
	return t.metric(), report.Test.Metrics[t.metric()], nil
}
