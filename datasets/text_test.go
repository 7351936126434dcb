package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/svg"
)

func TestBuiltinShakespeare(t *testing.T) {
	ds := open(t, Spec{Source: "text", Path: BuiltinShakespeare, Text: TextOptions{Context: 64}, KeepOrder: true})
	if ds.Info.Classes != 65 || ds.Info.Tokens != 65 || ds.Info.Tokenizer.Len() != 65 {
		t.Errorf("%d characters", ds.Info.Tokenizer.Len())
	}
	if ds.Train.Len() != (1003854-1)/64 || ds.Val.Len() != (111540-1)/64 {
		t.Errorf("%d and %d windows", ds.Train.Len(), ds.Val.Len())
	}
	dst := ds.Train.Alloc(1)
	if _, err := ds.Train.Read(Cursor{}, 1, dst); err != nil {
		t.Fatal(err)
	}
	in, target := tokenizer.Text(ds.Info.Tokenizer, shape.View[int32](dst[0])...), tokenizer.Text(ds.Info.Tokenizer, shape.View[int32](dst[1])...)
	const begin = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nS"
	if in != begin[:64] || target != begin[1:65] {
		t.Errorf("first window %q, target %q", in, target)
	}
}

func TestText(t *testing.T) {
	s := Spec{Source: "text", Path: write(t, "x.txt", strings.Repeat("héllo\nwörld ", 10)), Split: 0.8, KeepOrder: true, Text: TextOptions{Context: 7}}
	ds := open(t, s)
	if got := ds.Info.Tokenizer.(*tokenizer.Chars).Runes(); string(got) != "\n dhlorwéö" {
		t.Errorf("vocabulary %q", got)
	}
	if ds.Train.Len() != 95/7 || ds.Val.Len() != 23/7 {
		t.Errorf("%d and %d windows", ds.Train.Len(), ds.Val.Len())
	}
	got := readAll(t, ds.Train, 0)
	text := tokenizer.Text(ds.Info.Tokenizer, shape.View[int32](got[0])...)
	if !strings.HasPrefix(strings.Repeat("héllo\nwörld ", 10), text) {
		t.Errorf("windows say %q", text)
	}
	var info Info // as it would come back from a checkpoint
	b, err := json.Marshal(ds.Info)
	if err = errors.Join(err, json.Unmarshal(b, &info)); err != nil {
		t.Fatal(err)
	}
	p, err := OpenInputs(context.Background(), s, &info, write(t, "in", "wörld öld\nhéllo"))
	if err != nil || len(p) != 2 || p[0].Len() != 2 || p[1].Len() != 1 || !p[1].Fields()[0].Meta.Equal(shape.I32(1)) {
		t.Errorf("inputs: %v", err)
	}
	if p, err := openOne(context.Background(), s, &info, write(t, "in", "wörl")); err != nil || !p.Fields()[0].Meta.Equal(shape.I32(4)) {
		t.Errorf("a short text: %v", err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"unknown": {"héllo\nwÖrld", "line 2, column 2: 'Ö' is not among the 10 characters"},
		"empty":   {"", "is empty"},
		"bytes":   {"h\n\xffllo", "2:1: not UTF-8"},
	} {
		if _, err := OpenInputs(context.Background(), s, &ds.Info, write(t, "in", c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Text.Context = 30
	if _, err := Open(context.Background(), s); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), "validation part") {
		t.Error(err)
	}
	if got := tokenizer.Text[int32](ds.Info.Tokenizer, -1, 99); got != "\ufffd\ufffd" {
		t.Errorf("unknown ids decode to %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The picture of docs/text.md shows a text's tokens as the tokenizers make them.
func TestTextPicture(t *testing.T) {
	const text = "First Citizen: Before we proceed any further, hear me speak."
	learnt := func(vocab int) tokenizer.Tokenizer {
		b, err := LearnTokenizer(t.Context(), []string{BuiltinShakespeare}, LearnOptions{Vocab: vocab})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const left, top, wide, high = 100.0, 12.0, 11.0, 26.0 // pixels; wide is of a character
	p := &svg.Picture{Title: "The same text as tokens of four tokenizers", Width: left + wide*float64(len(text)) + 110}
	fills := []svg.Color{svg.Blue.Mixed(svg.White, 0.8), svg.Green.Mixed(svg.White, 0.8), svg.Orange.Mixed(svg.White, 0.75)}
	rows := []struct {
		name string
		t    tokenizer.Tokenizer
	}{{"char", tokenizer.NewChars(text)}, {"bpe:512", learnt(512)}, {"bpe:4096", learnt(4096)}, {"gpt2", tokenizer.GPT2()}}
	for i, row := range rows {
		ids, err := row.t.Encode(t.Context(), nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		y, at := top+float64(i)*1.6*high, left
		p.Text(svg.Text{X: 8, Y: y + 18, Words: row.name, Size: 14})
		for j, id := range ids {
			token := tokenizer.Text(row.t, id)
			p.Rect(svg.Box{X: at, Y: y, W: wide*float64(len(token)) - 1, H: high}, 0, svg.Style{Fill: fills[j%len(fills)], Hint: fmt.Sprint(id)})
			for _, letter := range strings.ReplaceAll(token, " ", "·") {
				p.Text(svg.Text{X: at + wide/2, Y: y + 18, Words: string(letter), Size: 15, Mono: true, Anchor: svg.Middle, Inside: true})
				at += wide
			}
		}
		p.Text(svg.Text{X: at + 12, Y: y + 18, Words: fmt.Sprintf("%d tokens", len(ids)), Size: 14, Color: svg.Faint})
	}
	p.Height = top + 1.6*high*float64(len(rows))
	golden.Check(t, "../docs/text.svg", p.String())
}

func TestTargetBytes(t *testing.T) {
	text := strings.Repeat("é, hello ", 100)
	for tok, want := range map[string][2]int64{
		"char": {896, 995}, "bytes": {994, 994}, "gpt2": {294, 980},
	} {
		s := Spec{Source: "text", Path: write(t, "x.txt", text), Split: 1, Text: TextOptions{Context: 7, Tokenizer: tok}}
		ds := open(t, s)
		tokens, bytes, err := ds.Train.TargetBytes(t.Context(), ds.Info.Tokenizer)
		if err != nil || tokens != want[0] || bytes != want[1] {
			t.Errorf("%s: %d tokens, %d bytes, want %v; %v", tok, tokens, bytes, want, err)
		}
	}
}
