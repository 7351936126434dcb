package datasets

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
)

// runesUpTo is a text of all characters from the space to count of them, and
// then n of them by chance.
func runesUpTo(count, n int) string {
	var b strings.Builder
	runes := make([]rune, 0, count)
	for r := ' '; len(runes) < count; r++ {
		if r < 0xd800 || r > 0xdfff {
			runes = append(runes, r)
			b.WriteRune(r)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range n {
		b.WriteRune(runes[rnd.IntN(count)])
	}
	return b.String()
}

// Whatever the width of the ids, the samples and the fingerprint are those of
// int32.
func TestIDWidths(t *testing.T) {
	for count, width := range map[int]int{256: 1, 257: 2, 65536: 2, 65537: 4} {
		text := runesUpTo(count, 3000)
		s := Spec{Source: "text", Path: write(t, "x.txt", text), KeepOrder: true, Text: TextOptions{Context: 7}}
		ds := open(t, s)
		c := ds.Train.table.columns[0]
		if c.size != 7*width || ds.Info.Tokenizer.Len() != count {
			t.Errorf("%d characters: an id takes %d bytes, want %d", ds.Info.Tokenizer.Len(), c.size/7, width)
		}
		ids, err := tokenizer.NewChars(text).Encode(t.Context(), nil, []byte(text))
		want := make([]int32, len(ids))
		for i, id := range ids {
			want[i] = int32(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := readAll(t, ds.Train, 0)
		n := len(got[0]) / 4
		if !slices.Equal(shape.View[int32](got[0]), want[:n]) || !slices.Equal(shape.View[int32](got[1]), want[1:n+1]) {
			t.Errorf("%d characters: other samples", count)
		}
		wide := func(ids []int32) *table {
			input := newColumn(Field{"input", shape.I32(7)}, shape.Bytes(ids))
			target := input
			target.field.Name, target.offset = "target", 4
			return &table{rows: (len(ids) - 1) / 7, columns: []column{input, target}}
		}
		cut := trainCount(len(want), 0.9)
		if f, err := fingerprint(t.Context(), s, [2]any{struct{ Context int }{7}, ds.Info.Tokenizer.(*tokenizer.Chars).Runes()}, wide(want[:cut]), wide(want[cut:])); f != ds.Info.Fingerprint {
			t.Errorf("%d characters: another fingerprint, %v", count, err)
		}
	}
}

// Pieces end between characters, wherever reads end, and know their position.
func TestPieces(t *testing.T) {
	text := strings.Repeat("añ→🙂\n", pieceBytes/5)
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "data and end": iotest.DataErrReader(strings.NewReader(text))} {
		var got []byte
		last := false
		err := eachPiece(r, "x", new(tokenizer.Chars).Cut, new(recycled[byte]), func(p textPiece) error {
			if want := start.after(got); p.at != want || last || !utf8.Valid(p.text) {
				t.Errorf("%s: a piece is at %v, want %v", name, p.at, want)
			}
			got, last = append(got, p.text...), p.last
			return nil
		})
		if !last {
			t.Errorf("%s: no piece is the last", name)
		}
		if err != nil || string(got) != text {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(text), err)
		}
	}
	for cut, says := range map[string]string{"\xff": ":1: not UTF-8", "a→\xf0\x9f": ":3: not UTF-8"} {
		s := Spec{Source: "text", Path: write(t, "x.txt", text+cut), Text: TextOptions{Context: 7}}
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", cut, err)
		}
	}
	none := func(textPiece) error { return nil }
	if err := eachPiece(iotest.ErrReader(io.ErrClosedPipe), "x", new(tokenizer.Chars).Cut, new(recycled[byte]), none); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// A text that needs more memory than there is is refused, with both numbers.
func TestTextMemory(t *testing.T) {
	s := Spec{Source: "text", Path: write(t, "x.txt", strings.Repeat("abcd", 1000)), Memory: 4000, Text: TextOptions{Context: 7}}
	info := open(t, s).Info
	s.Memory--
	const says = "take 3.906 KiB of memory, and 3.905 KiB is free"
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), says) {
		t.Error(err)
	}
	s.Memory = 1
	if _, err := OpenInputs(t.Context(), s, &info, s.Path); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "and none is free") {
		t.Errorf("inputs: %v", err)
	}
}

// A text that changes between the two readings is refused.
func TestTextChanges(t *testing.T) {
	texts := []string{"abab", "abababab"}
	c := &corpus{files: []textFile{{path: "x", open: func(ctx context.Context) (*files.Stream, error) {
		text := texts[0]
		texts = texts[1:]
		return files.NewStream(ctx, "x", bytes.NewReader([]byte(text)), int64(len(text)))
	}}}}
	if _, _, err := c.ids(t.Context(), Spec{}, "x"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "changed while it was read") {
		t.Error(err)
	}
}

// A large text is tokenized once. The cache changes nothing but the time, and a
// file in it that is damaged, or missing, is made anew.
func TestTextCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(filecache.Variable, dir)
	s := Spec{Source: "text", Path: write(t, "x.txt", strings.Repeat("the cat sat on the mat, and the rat ran.\n", cacheFrom/40)), Text: TextOptions{Context: 64, Tokenizer: "bpe:280"}}
	var doing []string
	s.Text.Progress = func(what string, _ float64) {
		if !slices.Contains(doing, what) {
			doing = append(doing, what)
		}
	}
	cached := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	first := open(t, s)
	if len(doing) != 4 || len(cached()) != 2 || first.Train.table.mapping == nil {
		t.Errorf("first: %q, files %q", doing, cached())
	}
	check := func(name string, did ...string) {
		t.Helper()
		doing = nil
		ds := open(t, s)
		if ds.Info.Fingerprint != first.Info.Fingerprint || !slices.Equal(doing, did) {
			t.Errorf("%s: %q, want %q; fingerprint %s, want %s", name, doing, did, ds.Info.Fingerprint, first.Info.Fingerprint)
		}
		a, b := readAll(t, first.Train, 1), readAll(t, ds.Train, 1)
		if !slices.Equal(a[0], b[0]) || !slices.Equal(a[1], b[1]) {
			t.Errorf("%s: other samples", name)
		}
	}
	check("again", "reading")
	for _, path := range cached() {
		// The one that is mapped stays as it is.
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("damaged"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	check("damaged", "reading", "counting words", "learning a tokenizer", "tokenizing")
	s.Text.Known = first.Info.Tokenizer
	check("a run that goes on", "reading")
	s.Text.Known = nil
	t.Setenv(filecache.Variable, s.Path) // which is no folder
	check("no cache", "reading", "counting words", "learning a tokenizer", "tokenizing")
	if notes := open(t, s).Notes; len(notes) != len(first.Notes)+1 || !strings.HasPrefix(notes[0], "the folder of cached files cannot be used, so the text is tokenized at each start: ") {
		t.Errorf("no cache: %q", notes)
	}
	t.Setenv(filecache.Variable, dir)
	if err := os.WriteFile(s.Path, []byte("\xff"+strings.Repeat("x", cacheFrom)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), "1:1: not UTF-8") || len(cached()) != 2 {
		t.Errorf("not UTF-8: %v; files %q", err, cached())
	}
}
