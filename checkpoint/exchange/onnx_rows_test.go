package exchange

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/onnx"
	"github.com/berth-ml/berth/internal/ort"
)

// dates are first and last days of months, in years around those that are no leap years.
func dates() (list []time.Time) {
	for _, year := range []int{1, 4, 100, 399, 400, 1599, 1600, 1601, 1700, 1800, 1899, 1900, 1904, 1969, 1970, 1972, 1999, 2000, 2001, 2024, 2099, 2100, 2101, 2399, 2400, 9999} {
		for month := time.January; month <= time.December; month++ {
			for i, day := range []int{1, 15, 0} { // 0: the last one of the month before
				list = append(list, time.Date(year, month, day, (7*i+int(month))%24, 59, 59, 0, time.UTC))
			}
		}
	}
	return list[3:] // the last day of year 0 is no date
}

// Rows become the features that training makes of them, from dates of any century to values of
// columns that no row may lack.
func TestRowsBecomeTheSameFeatures(t *testing.T) {
	ort.Need(t)
	f := &columns.Fitted{}
	if err := f.UnmarshalJSON([]byte(`{"Version": 1, "Missing": ["gold", "-", "-999", "1"], "Columns": [
		{"Name": "day", "Kind": "date", "Order": "ymd", "Newest": 450000, "Optional": true, "Indicator": true, "Fill": -8761},
		{"Name": "plan", "Kind": "category", "Values": ["plus", "gold", "free"], "Optional": true},
		{"Name": "must", "Kind": "category", "Values": ["a"], "Other": true},
		{"Name": "sure", "Kind": "boolean", "Optional": true, "Indicator": true, "Fill": 1},
		{"Name": "", "Kind": "number", "Optional": true, "Fill": 2.5}]}`)); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for i, d := range dates() {
		rows = append(rows, []string{d.Format("2006-01-02 15:04:05"), []string{"plus", "gold", "free", "-", "", "odd"}[i%6],
			[]string{"a", "b"}[i%2], []string{"yes", "no", "-"}[i%3], []string{"1.25", "", "-999"}[i/3%3]})
	}
	rows[5][0] = ""
	n := len(rows)
	var want []float32
	seconds, sure, number := make([]float64, n), make([]float64, n), make([]float64, n)
	plan, must := make([]string, n), make([]string, n)
	for i, row := range rows {
		fields := make([][]byte, len(row))
		for j := range row {
			fields[j] = []byte(row[j])
		}
		features := make([]float32, f.Features())
		if err := f.Row(fields, features); err != nil {
			t.Fatal(err)
		}
		want = append(want, features...)
		seconds[i], plan[i], must[i], number[i] = math.NaN(), row[1], row[2], math.NaN()
		if s, ok := columns.Moment(fields[0], "ymd"); ok {
			seconds[i] = s
		}
		if v, err := strconv.ParseFloat(row[4], 64); err == nil {
			number[i] = v
		}
		if sure[i] = map[string]float64{"yes": 1, "no": 0}[row[3]]; row[3] == "-" {
			sure[i] = math.NaN()
		}
	}
	o := &onnxModel{b: onnx.NewBuilder("rows"), info: &datasets.Info{}}
	features, _, err := o.rows(f)
	if err != nil {
		t.Fatal(err)
	}
	o.b.Output("features", features, onnx.Float32, onnx.Dim{Name: onnx.Batch}, onnx.Dim{Size: f.Features()})
	ort.Check(t, o.b.Graph())
	path := filepath.Join(t.TempDir(), "m.onnx")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := onnx.Write(file, &onnx.Model{Graph: o.b.Graph()}); err != nil {
		t.Fatal(err)
	}
	r := ort.Run(t, []ort.Job{{Model: path, Feeds: map[string]ort.Tensor{
		"day": ort.Numbers("float64", seconds, n, 1), "plan": ort.Texts(plan, n, 1), "must": ort.Texts(must, n, 1),
		"sure": ort.Numbers("float32", sure, n, 1), "column 5": ort.Numbers("float32", number, n, 1),
	}}})[0]
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	names := f.Names()
	for i, got := range r.Outputs["features"].Floats(t) {
		if got != float64(want[i]) {
			at := i / len(names)
			t.Fatalf("row %d, %q: %s is %v, expected %v", at, rows[at], names[i%len(names)], got, want[i])
		}
	}
}
