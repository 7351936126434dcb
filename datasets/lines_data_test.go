package datasets

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

// linesOf reads all batches of an epoch, and gives the text of each sample, its target and
// the positions of its batch.
func linesOf(t *testing.T, p *Part, tok tokenizer.Tokenizer, epoch, n int) (texts, targets []string, positions []int) {
	t.Helper()
	dst := p.Alloc(n)
	for c := (Cursor{Epoch: epoch}); c.Epoch == epoch; c = p.Next(c, n) {
		if _, err := p.Read(c, n, dst); err != nil {
			t.Fatal(err)
		}
		size := p.Buckets()[p.Bucket(c)]
		lengths := shape.View[int32](dst[1])
		for j := range n {
			length := int(lengths[j])
			if length == 0 {
				continue
			}
			texts = append(texts, tokenizer.Text(tok, shape.View[int32](dst[0])[j*size:][:length]...))
			positions = append(positions, size)
			if len(dst) > 2 && p.Fields()[2].Meta.Shape.Rank() == 1 {
				targets = append(targets, tokenizer.Text(tok, shape.View[int32](dst[2])[j*size:][:length]...))
			}
		}
	}
	return texts, targets, positions
}

func TestLines(t *testing.T) {
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, "%s\r\n\n", strings.Repeat("ab", i%7)+"c")
	}
	s := Spec{Source: "lines", Path: write(t, "x.txt", text.String()), Split: 0.8, Seed: 3, Lines: LineOptions{Buckets: []int{4, 9, 14}}}
	ds := open(t, s)
	train := ds.Train.InBatches(4)
	if ds.Train.Len() != 40 || ds.Val.Len() != 10 || train.Samples() != 40 || train.Len()%4 != 0 {
		t.Fatalf("%d samples, %d validate; %d in batches", ds.Train.Len(), ds.Val.Len(), train.Len())
	}
	orders := map[string]bool{}
	var all []string
	for epoch := range 3 {
		texts, targets, positions := linesOf(t, train, ds.Info.Tokenizer, epoch, 4)
		for i, x := range texts {
			if x[0] != '\n' || targets[i] != x[1:]+"\n" {
				t.Errorf("the sample %q has the target %q", x, targets[i])
			}
			if size := positions[i]; len(x) > size || slices.ContainsFunc(train.Buckets(), func(b int) bool { return b >= len(x) && b < size }) {
				t.Errorf("%q has %d positions", x, size)
			}
		}
		orders[strings.Join(texts, "|")] = true
		slices.Sort(texts)
		if all == nil {
			all = texts
		}
		if len(texts) != 40 || !slices.Equal(texts, all) {
			t.Errorf("epoch %d has %d samples", epoch, len(texts))
		}
	}
	if len(orders) != 3 {
		t.Errorf("%d orders in 3 epochs", len(orders))
	}
	inputs, err := OpenInputs(t.Context(), s, &ds.Info, write(t, "in", "abc\na\nababababc\n"))
	if err != nil {
		t.Fatal(err)
	}
	texts, _, positions := linesOf(t, inputs[0].InBatches(2), ds.Info.Tokenizer, 0, 2)
	if !slices.Equal(texts, []string{"\nabc", "\na", "\nababababc"}) || !slices.Equal(positions, []int{4, 4, 14}) {
		t.Errorf("inputs %q in %v", texts, positions)
	}
	blank := write(t, "blank", "\n\n")
	if _, err := OpenInputs(t.Context(), s, &ds.Info, blank); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), blank+" has no line with text") {
		t.Errorf("inputs without text: %v", err)
	}
	first := train.FirstBatch(4)
	once, _, _ := linesOf(t, first, ds.Info.Tokenizer, 0, 4)
	again, _, _ := linesOf(t, first, ds.Info.Tokenizer, 7, 4)
	if first.Len() != 4 || first.Samples() != len(once) || !slices.Equal(once, again) {
		t.Errorf("the first batch is %q, and later %q", once, again)
	}
	s.Split, s.Division = 0, &Division{Val: 0.2, Test: 0.1}
	if n := open(t, s).Train.FirstBatch(4).Samples(); n < 1 || n > 4 {
		t.Errorf("the first batch of a part that lists its rows has %d samples", n)
	}
	for _, p := range []*Part{ds.Val, train} {
		if tokens, bytes, err := p.TargetBytes(t.Context(), ds.Info.Tokenizer); err != nil || tokens != p.Positions() || bytes != tokens {
			t.Errorf("%d tokens, %d bytes of %d positions: %v", tokens, bytes, p.Positions(), err)
		}
	}
	if _, err := train.Read(Cursor{Index: 2}, 4, train.Alloc(4)); !errors.Is(err, ErrSpec) {
		t.Errorf("within a batch: %v", err)
	}
}

func TestLinesWithLabels(t *testing.T) {
	s := Spec{Source: "lines", Path: write(t, "x.jsonl", `{"text": "good day", "stars": 5}
{"text": "bad", "stars": 1}

{"text": "a good\nbook", "stars": 5}
`), Split: 1, Text: TextOptions{Field: "text", Tokenizer: "bytes"}, Lines: LineOptions{Buckets: []int{8, 16}, Label: "stars"}, KeepOrder: true}
	ds := open(t, s)
	if !slices.Equal(ds.Info.ClassNames, []string{"1", "5"}) || ds.Info.Classes != 2 || ds.Info.Target.Meta.Shape.Rank() != 0 {
		t.Errorf("info %+v", ds.Info)
	}
	p := ds.Train.InBatches(2)
	dst := p.Alloc(2)
	var classes []int32
	for c := (Cursor{}); c.Epoch == 0; c = p.Next(c, 2) {
		if _, err := p.Read(c, 2, dst); err != nil {
			t.Fatal(err)
		}
		classes = append(classes, shape.View[int32](dst[2])[:2]...)
	}
	if !slices.Equal(classes, []int32{0, Padding, 1, 1}) {
		t.Errorf("classes %d", classes)
	}
}

func TestLinesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		alter func(*Spec)
		want  string
	}{
		"long":        {"abc\nabcdefgh\n", nil, "x.txt:2: the line has 9 tokens with the one that begins it, and the largest of data.buckets is 8: raise data.buckets or data.context, or cut long lines off with data.truncate: true"},
		"empty":       {"\n\n", nil, "has no line with text"},
		"no buckets":  {"abc\n", func(s *Spec) { s.Lines.Buckets = nil }, "there are 0 buckets"},
		"unsorted":    {"abc\n", func(s *Spec) { s.Lines.Buckets = []int{8, 4} }, "the fewest first"},
		"label":       {"abc\n", func(s *Spec) { s.Lines.Label = "class" }, "set data.field"},
		"no such key": {`{"text":"a"}`, func(s *Spec) { s.Lines.Label, s.Text.Field = "class", "text" }, `x.jsonl:1: the object has no key "class": set data.label`},
		"a list":      {`{"text":"a","class":[1]}`, func(s *Spec) { s.Lines.Label, s.Text.Field = "class", "text" }, "is a list or an object: set data.label"},
		"one class":   {"{\"text\":\"a\",\"class\":1}\n", func(s *Spec) { s.Lines.Label, s.Text.Field = "class", "text" }, `class is "1" on every line`},
		"bytes":       {"a\n\xff\n", nil, "x.txt:2: not UTF-8"},
	} {
		file := "x.txt"
		if strings.Contains(c.want, "x.jsonl") || strings.HasPrefix(c.text, "{") {
			file = "x.jsonl"
		}
		s := Spec{Source: "lines", Path: write(t, file, c.text), Split: 1, Lines: LineOptions{Buckets: []int{4, 8}}}
		if c.alter != nil {
			c.alter(&s)
		}
		if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		} else if strings.Contains(c.want, "data.label") && Blame(err) != "label" {
			t.Errorf("%s: %s is blamed", name, Blame(err))
		}
	}
}

func TestLinesTruncated(t *testing.T) {
	s := Spec{Source: "lines", Path: write(t, "x.txt", "abc\nabcdefgh\n"), Split: 1, Lines: LineOptions{Buckets: []int{4}, Truncate: true}}
	ds := open(t, s)
	if ds.Train.Positions() != 8 || len(ds.Notes) != 1 || !strings.Contains(ds.Notes[0], "1 of 2 lines are cut off at 4 tokens; the longest has 9") {
		t.Errorf("%d positions, notes %q", ds.Train.Positions(), ds.Notes)
	}
}
