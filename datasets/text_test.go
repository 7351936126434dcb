package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
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
