package tokenizer

import (
	"slices"
	"testing"

	"github.com/dlclark/regexp2"
)

// The splitter by hand finds the words of the two regular expressions.
func TestLlamaSplit(t *testing.T) {
	for _, expr := range []string{llamaPattern, qwenPattern} {
		fast, err := newSplit(expr, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := fast.(llamaSplit); !ok {
			t.Fatalf("%s is split by %T", expr, fast)
		}
		slow := &patternSplit{expr, regexp2.MustCompile(expr, regexp2.None), true}
		for _, text := range append(texts(2000), "'S'T'rE'Ve'M'lL'D'Rx'", "a\r\n \n\n  b\n c", "½123456 7", " \n", "\u00a0x\u00a0\n", "..\r\n\n x") {
			if got, want := wordsOf(t, fast, text), wordsOf(t, slow, text); !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
	// Unlike Hugging Face's, the library knows no long s.
	if got := wordsOf(t, llamaSplit{digits: 3}, "'ſa"); !slices.Equal(got, []string{"'ſ", "a"}) {
		t.Errorf("%q", got)
	}
}
