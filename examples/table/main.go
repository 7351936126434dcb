// This program trains on a table with words, dates and missing values, and asks the
// model about rows as they are: values by the names of their columns.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	_ "github.com/berth-ml/berth/engine/device/cpu"
)

func main() {
	if err := run(context.Background(), os.Stdout, "examples/table", "runs/churn-example"); err != nil {
		log.Fatal(err)
	}
}

// run trains in the folder dir, from the files in from, and prints answers to w.
func run(ctx context.Context, w io.Writer, from, dir string) error {
	cfg, err := configs.Load(filepath.Join(from, "churn.yaml"), configs.Overlay{})
	if err != nil {
		return err
	}
	if err := train(ctx, cfg, dir); err != nil {
		return err
	}
	model, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	for _, line := range model.Info().Row().Expects() {
		fmt.Fprintln(w, line)
	}
	rows := []map[string]any{
		{"age": 71, "plan": "pro", "country": "Spain", "monthly": 79.5, "support_calls": 0, "paperless": true, "signed_up": "2021-03-01"},
		{"age": nil, "plan": "basic", "country": "Chile", "monthly": 24.9, "support_calls": 6, "paperless": false, "signed_up": "2024-02-11"},
	}
	_, err = model.PredictRows(ctx, rows, func(p berth.Prediction) error {
		_, err := fmt.Fprintf(w, "row %d: churn %s (%.0f%%)\n", p.Index, p.Label, 100*p.Values[*p.Class])
		return err
	})
	return err
}

// train trains once; a folder with a finished run is left as it is.
func train(ctx context.Context, cfg *configs.Config, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	if err != nil {
		return err
	}
	defer run.Close()
	for _, column := range run.Data.Columns {
		log.Printf("%s is of kind %s", column.Name, column.Kind)
	}
	_, err = run.Train(ctx, berth.TrainOptions{Dir: dir})
	return err
}
