package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/internal/golden"
)

// TestErrorMessages compares the messages about each broken config of
// testdata/errors.in with testdata/errors.golden.
func TestErrorMessages(t *testing.T) {
	in, err := os.ReadFile("testdata/errors.in")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, chunk := range strings.Split("\n"+string(in), "\n-- ")[1:] {
		name, body, _ := strings.Cut(chunk, " --")
		body = strings.TrimPrefix(body, "\n")
		fmt.Fprintf(&out, "-- %s --\n", name)
		if _, err = Parse(name+".yaml", []byte(body), Overlay{}); err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v is not ErrInvalid", name, err)
		}
		fmt.Fprintln(&out, err)
	}
	golden.Check(t, filepath.Join("testdata", "errors.golden"), withoutLists(out.String(), 1))
}

// withoutLists shortens the lists of layers and metrics in messages, but for the first few of
// each, and leaves out how many layers there are: a new one then changes few lines.
func withoutLists(text string, first int) string {
	layers := layerSection.choices()
	text = strings.ReplaceAll(text, fmt.Sprintf("one of %d words", len(layers)), "one of N words")
	for _, list := range []string{
		strings.Join(layers, ", "),
		metricsOf(metrics.Task{Kind: metrics.Classes, Right: true}),
	} {
		parts := strings.SplitAfterN(text, list, 1+first)
		rest := &parts[len(parts)-1]
		begin, _, _ := strings.Cut(list, ",")
		*rest = strings.ReplaceAll(*rest, list, begin+", …")
		text = strings.Join(parts, "")
	}
	return text
}

func TestErrorHasItsPosition(t *testing.T) {
	_, err := Parse("a.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\ntrain:\n  batch: 0\n"), Overlay{})
	var e *Error
	if !errors.As(err, &e) || e.Pos != (Pos{"a.yaml", 4}) || e.Key != "train.batch" {
		t.Fatalf("got %+v of %v", e, err)
	}
}
