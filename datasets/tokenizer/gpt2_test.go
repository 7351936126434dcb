package tokenizer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	"github.com/pkoukk/tiktoken-go"
)

// The ranks are those that OpenAI publishes for tiktoken's r50k_base.
func TestGPT2Ranks(t *testing.T) {
	g := GPT2()
	h := sha256.New()
	for id, token := range g.tokens[:len(g.tokens)-1] {
		fmt.Fprintf(h, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), id)
	}
	const published = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
	if got := hex.EncodeToString(h.Sum(nil)); got != published {
		t.Errorf("SHA-256 of the ranks is %s", got)
	}
	if end, ok := g.EndOfText(); g.Len() != 50257 || end != 50256 || !ok || g.Kind() != "gpt2" {
		t.Errorf("%d tokens, %s at %d, kind %s", g.Len(), EndOfText, end, g.Kind())
	}
	if hash := g.computeHash(); g.Hash() != hash {
		t.Errorf("the hash is %s, expected %s", g.Hash(), hash)
	}
}

// tiktoken is tiktoken-go with GPT-2's ranks.
func tiktokenGPT2(t *testing.T) *tiktoken.Tiktoken {
	g := GPT2()
	ranks := map[string]int{}
	for id, token := range g.tokens[:50256] {
		ranks[token] = id
	}
	special := map[string]int{EndOfText: 50256}
	bpe, err := tiktoken.NewCoreBPE(ranks, special, gpt2Pattern)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]any{EndOfText: true}
	return tiktoken.NewTiktoken(bpe, &tiktoken.Encoding{Name: "gpt2", PatStr: gpt2Pattern, MergeableRanks: ranks, SpecialTokens: special, ExplicitNVocab: 50257}, set)
}

// texts are of many kinds, and then by chance.
func texts(n int) []string {
	all := []string{
		"Hello, world", "  two  spaces \n\n and\tlines\r\n", "don't I'll we've YOU'RE 'tis ''s", "12,345.67 ½ Ⅷ ٣", "naïve façade 東京タワー、です。",
		"🙂👩‍👩‍👧 ́combining", "a\u00a0b\u2003\u2003c\u0085", strings.Repeat("a", 300), strings.Repeat(" ", 99) + "x", EndOfText + "a" + EndOfText + EndOfText, "<|endoftext", "\x00\x7f",
		"", " ", "\n", "'", "antidisestablishmentarianism https://example.org/?q=%20#frag", strings.Repeat("ab", 400),
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	alphabet := []rune("  \n\t'’aAeéstrdmlvßあ漢१9½.,!-_🙂\u00a0\u0301\u2028")
	for range n {
		s := make([]rune, rnd.IntN(60))
		for i := range s {
			s[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		all = append(all, string(s))
	}
	return all
}

// GPT-2's ids are those of another program, and lead back to the text.
func TestGPT2LikeTiktoken(t *testing.T) {
	g, oracle := GPT2(), tiktokenGPT2(t)
	for _, text := range texts(400) {
		ids, err := g.Encode(t.Context(), nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var want []uint32
		for _, id := range oracle.Encode(text, []string{"all"}, nil) {
			want = append(want, uint32(id))
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%q: %v, want %v", text, ids, want)
		}
		if back := Text(g, ids...); back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
}

// The splitter by hand finds the words of the regular expression.
func TestGPT2Split(t *testing.T) {
	slow := &patternSplit{gpt2Pattern, regexp2.MustCompile(gpt2Pattern, regexp2.None), true}
	for _, text := range texts(2000) {
		if got, want := wordsOf(t, gpt2Split{}, text), wordsOf(t, slow, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func wordsOf(t *testing.T, s splitter, text string) (list []string) {
	t.Helper()
	if err := s.each(t.Context(), []byte(text), func(w []byte) error { list = append(list, string(w)); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// A long word is merged as a short one.
func TestLongWords(t *testing.T) {
	g := GPT2()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		w := make([]byte, longWord+rnd.IntN(200))
		for i := range w {
			w[i] = "aeinrst"[rnd.IntN(7)]
		}
		long, short := newCoder(g), newCoder(g)
		var first []uint32
		s := short.steps
		for _, b := range w {
			first = append(first, g.byteIDs[b])
			s = append(s, step{id: g.byteIDs[b]})
		}
		long.mergeLong(first)
		short.mergeShort(s)
		if !slices.Equal(long.out, short.out) {
			t.Errorf("%s: %v and %v", w, long.out, short.out)
		}
	}
}

// Pieces that are cut apart have the ids of the whole, however much of the text is
// there when Cut is asked.
func TestCut(t *testing.T) {
	g := GPT2()
	var b bytes.Buffer
	for _, text := range texts(3000) {
		b.WriteString(text)
	}
	text := bytes.Repeat(b.Bytes(), 1+3*CutBytes/b.Len())
	want, err := g.Encode(t.Context(), nil, text)
	if err != nil {
		t.Fatal(err)
	}
	var whole []uint32 // as a single piece
	c := newCoder(g)
	if err := c.piece(t.Context(), text, begins); err != nil {
		t.Fatal(err)
	}
	whole = c.out
	if !slices.Equal(want, whole) {
		t.Error("a text in pieces has other ids than whole")
	}
	for _, step := range []int{1 << 12, 100_003} {
		var got []uint32
		for from, have := 0, 0; from < len(text); {
			have = min(len(text), have+step)
			n := g.Cut(text[from:have], have == len(text))
			if got, err = g.Encode(t.Context(), got, text[from:from+n]); err != nil {
				t.Fatal(err)
			}
			from += n
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %d bytes at a time: other ids", step)
		}
	}
}

// A text of another kind is cut between words as well: for GPT-2's pattern and for
// one with other rules about line ends and numbers.
func TestCutBetweenWords(t *testing.T) {
	other, err := newSplit(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"Nf3 d5 12345 exd5!\n", "1234567\n", "12,34;5\n", "漢字、かな。\n", "x = 'don't' !!\n\n\n  y", "a\t\tb", "?! ?! "} {
		text := []byte(strings.Repeat(unit, 1+(CutBytes+1000)/len(unit)))
		n := GPT2().Cut(text, false)
		for _, s := range []splitter{gpt2Split{}, other} {
			from := max(0, n-2000) // a word begins at one of these places in any case
			for !endsWord(text, from+1) {
				from++
			}
			whole := wordsOf(t, s, string(text[from+1:]))
			parts := append(wordsOf(t, s, string(text[from+1:n])), wordsOf(t, s, string(text[n:]))...)
			if !slices.Equal(whole, parts) {
				t.Errorf("%q: cut within a word", unit)
			}
		}
	}
}

// Cut keeps characters and added tokens whole in a text without words.
func TestCutWithoutWords(t *testing.T) {
	g := GPT2()
	for _, unit := range []string{"漢", EndOfText, "a", "\xff", "<"} {
		text := []byte("." + strings.Repeat(unit, 1+CutBytes/len(unit)))
		n := g.Cut(text, false)
		if n <= CutBytes/2 || (n-1)%len(unit) != 0 {
			t.Errorf("%q: cut at %d", unit, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	f, err := os.Open("../data/tinyshakespeare.txt.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	pattern := &patternSplit{gpt2Pattern, regexp2.MustCompile(gpt2Pattern, regexp2.None), true}
	g := GPT2()
	for name, split := range map[string]splitter{"by hand": gpt2Split{}, "by pattern": pattern} {
		b.Run(name, func(b *testing.B) {
			g.split = []splitter{split}
			b.SetBytes(int64(len(text)))
			var ids []uint32
			for b.Loop() {
				ids, _ = g.Encode(b.Context(), ids[:0], text)
			}
		})
	}
	g.split = []splitter{gpt2Split{}}
}
