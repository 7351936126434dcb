package datasets

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/internal/testall"
)

// Choosing among very many columns takes time in proportion to them.
func TestManyColumns(t *testing.T) {
	width := testall.Or(40_000, 200_000)
	names := make([]string, width)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	row := strings.Repeat("1,", width-1)
	text := strings.Join(names, ",") + "\n" + row + "x\n" + row + "y\n"
	for name, in := range map[string]csvInput{
		"all":      {},
		"a label":  {opt: CSVOptions{Labels: []string{"c7"}, Ignore: names[width-1:]}},
		"ignored":  {opt: CSVOptions{Ignore: names[:width/2]}},
		"a model":  {fitted: columns.NumbersOf(names[:width-1])},
		"to infer": {predict: true, wanted: names[:width-1], fitted: columns.NumbersOf(names[:width-1])},
	} {
		in.path = "x.csv"
		began := time.Now()
		c, err := parseCSV(t, text, in)
		if err != nil || len(c.features) < width/2-1 || c.rows != 2 {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
	began := time.Now()
	words := strings.ReplaceAll(text, "\n1,", "\nred,")
	ds, err := Open(t.Context(), Spec{Source: "csv", Path: write(t, "words.csv", words), Split: 1, Memory: 1 << 30})
	if err != nil || len(ds.Info.Features) < width-1 || len(ds.Options) != 2 {
		t.Errorf("with a word: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("with a word: %v", took)
	}
	_, err = parseCSV(t, text, csvInput{path: "x.csv", opt: CSVOptions{Labels: []string{"d"}}})
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("a column that is not there: %.400v", err)
	}
}
