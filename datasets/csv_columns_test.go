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
	few, many := timesOfColumns(t, width/4), timesOfColumns(t, width)
	for name, took := range many {
		// Four times as many take four times as long; each with each, sixteen times.
		if limit := 10 * max(few[name], 250*time.Millisecond); took > limit {
			t.Errorf("%s: %v for %d columns, %v for %d", name, took, width, few[name], width/4)
		}
	}
}

// timesOfColumns reads tables with so many columns in several ways, and tells how long each takes.
func timesOfColumns(t *testing.T, width int) map[string]time.Duration {
	t.Helper()
	times := map[string]time.Duration{}
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
		if times[name] = time.Since(began); err != nil || len(c.features) < width/2-1 || c.rows != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	began := time.Now()
	words := strings.ReplaceAll(text, "\n1,", "\nred,")
	ds, err := Open(t.Context(), Spec{Source: "csv", Path: write(t, "words.csv", words), Split: 1, Memory: 1 << 30})
	if times["with a word"] = time.Since(began); err != nil || len(ds.Info.Features) < width-1 || len(ds.Options) != 2 {
		t.Errorf("with a word: %v", err)
	}
	_, err = parseCSV(t, text, csvInput{path: "x.csv", opt: CSVOptions{Labels: []string{"d"}}})
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("a column that is not there: %.400v", err)
	}
	return times
}
