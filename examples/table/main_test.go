package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

var update = flag.Bool("update", false, "write churn.csv")

// churn is the table that churn.csv holds: invented customers.
func churn() []byte {
	r := rand.New(rand.NewPCG(2024, 7))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	var b bytes.Buffer
	b.WriteString("customer,signed_up,plan,country,age,monthly,support_calls,paperless,comment,churn\n")
	for i := range 600 {
		day := time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(1200))
		plan := pick("basic", "basic", "basic", "plus", "plus", "pro")
		pay := map[string]float64{"basic": 20, "plus": 45, "pro": 80}[plan] + 6*r.NormFloat64()
		age, calls := 18+r.IntN(62), r.IntN(4)+r.IntN(4)
		months := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC).Sub(day).Hours() / 730
		score := map[string]float64{"basic": 0.7, "plus": 0, "pro": -1.2}[plan] - 0.07*(months-20) - 0.03*float64(age-45) + 0.6*float64(calls-3) + 0.8*r.NormFloat64()
		row := []string{
			fmt.Sprintf("K%d", 1000+i), day.Format("2006-01-02"), plan, pick("Spain", "Chile", "Norway", "Kenya", "Japan"),
			fmt.Sprint(age), fmt.Sprintf("%.2f", pay), fmt.Sprint(calls), pick("yes", "no"),
			strings.Join([]string{pick("the", "my", "this"), pick("bill", "service", "router", "price"), pick("is", "was"), pick("fine", "slow", "wrong", "great"), pick("since", "until"), fmt.Sprint("day ", r.IntN(300))}, " "),
			map[bool]string{true: "yes", false: "no"}[score > 0],
		}
		for column, share := range map[int]float64{2: 0.03, 4: 0.08, 9: 0.01} {
			if rand.New(rand.NewPCG(uint64(i), uint64(column))).Float64() < share {
				row[column] = map[int]string{2: "", 4: "NA", 9: ""}[column]
			}
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	return b.Bytes()
}

// The file is what churn writes: go test ./examples/table -update writes it.
func TestChurnFile(t *testing.T) {
	if *update {
		if err := os.WriteFile("churn.csv", churn(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("churn.csv"); err != nil || !bytes.Equal(have, churn()) {
		t.Errorf("churn.csv is not what churn writes (%v): use -update", err)
	}
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, ".", filepath.Join(t.TempDir(), "run")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"plan: category: basic, plus, pro; may be missing\n", "row 0: churn no (", "row 1: churn yes ("} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %q", out.String(), want)
		}
	}
}

// Rows that training never saw have the same answers, to the bit, in the validation part,
// from a file whose columns are in another order, by name, and from a service.
func TestSameAnswers(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "run")
	cfg, err := configs.Load("churn.yaml", configs.Overlay{Set: []string{"train.epochs=2"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := train(ctx, cfg, dir); err != nil {
		t.Fatal(err)
	}
	model, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	held := answers(t, func(emit func(berth.Prediction) error) error {
		_, err := model.Predict(ctx, "", emit)
		return err
	})
	rows, file := otherOrder(t)
	fromFile := answers(t, func(emit func(berth.Prediction) error) error {
		_, err := model.Predict(ctx, file, emit)
		return err
	})
	byName := answers(t, func(emit func(berth.Prediction) error) error {
		_, err := model.PredictRows(ctx, rows, emit)
		return err
	})
	if !slices.Equal(fromFile, byName) {
		t.Error("answers by name differ from those of a file")
	}
	for i, a := range held {
		if !slices.Contains(fromFile, a) {
			t.Errorf("sample %d of the validation part: no row of the file has the answer %s", i, a)
		}
	}
	if e, err := model.Eval(ctx); err != nil || e.Samples != len(held) || e.Part != "validation" {
		t.Errorf("%+v %v", e, err)
	}
	if served := service(ctx, t, model, rows[:40]); !slices.Equal(served, byName[:40]) {
		t.Error("answers of a service differ")
	}
}

// answers are predictions as text.
func answers(t *testing.T, predict func(emit func(berth.Prediction) error) error) (list []string) {
	t.Helper()
	if err := predict(func(p berth.Prediction) error {
		list = append(list, fmt.Sprint(p.Label, p.Values))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// service is the answers of a service.
func service(ctx context.Context, t *testing.T, model *berth.Trained, rows []map[string]any) []string {
	t.Helper()
	s, err := model.Serve(ctx, berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return answers(t, func(emit func(berth.Prediction) error) error {
		list, err := s.Rows(ctx, rows)
		for _, p := range list {
			if err := emit(p); err != nil {
				return err
			}
		}
		return err
	})
}

// otherOrder is the rows of churn.csv by name, and a file of them whose columns are
// in another order, without the label and beside one that nobody knows.
func otherOrder(t *testing.T) (rows []map[string]any, file string) {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(churn())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, r := range records {
		label := len(r) - 1
		out := append([]string{"unknown"}, r[:label]...)
		slices.Reverse(out)
		b.WriteString(strings.Join(out, ",") + "\n")
		if i == 0 {
			continue
		}
		row := map[string]any{"unknown": 7}
		for j, value := range r[:label] {
			row[records[0][j]] = value
		}
		rows = append(rows, row)
	}
	file = filepath.Join(t.TempDir(), "new.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return rows, file
}
