package tokenizer_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// TestStreamGivesWholeCharacters: of ids that are bytes, the text comes in whole
// characters, and ends before a stop text.
func TestStreamGivesWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		text, want string
		stops      []string
		ended      bool
	}{
		{text: "aé€😀z", want: "aé€😀z"},
		{text: "half \xf0\x9f\x98", want: "half "},
		{text: "\xff ok \xc3(", want: "\uFFFD ok \uFFFD("},
		{text: "a\n\nb", stops: []string{"\n\n"}, want: "a", ended: true},
		{text: "a\nb", stops: []string{"\n\n"}, want: "a\nb"},
		{text: "a\n", stops: []string{"\n\n"}, want: "a\n"},
		{text: "User: Use User:", stops: []string{"Bot:", "User:"}, want: "", ended: true},
		{text: "ababac", stops: []string{"abac"}, want: "ab", ended: true},
		{text: "é€", stops: []string{"€"}, want: "é", ended: true},
	} {
		s, got, ended := tokenizer.NewStream(tokenizer.Bytes{}, c.stops...), "", false
		for i := 0; i < len(c.text) && !ended; i++ {
			var text []byte
			if text, ended = s.Add(nil, int32(c.text[i])); !utf8.Valid(text) {
				t.Errorf("%q: %q came", c.text, text)
			}
			if held := strings.TrimPrefix(c.text[:i+1], got+string(text)); utf8.ValidString(c.text) && len(c.stops) == 0 && len(held) > 3 {
				t.Errorf("%q: %q is held back", c.text, held)
			}
			got += string(text)
		}
		if !ended {
			got += string(s.End(nil))
		}
		if got != c.want || ended != c.ended {
			t.Errorf("%q with stops %q: %q, ended %v", c.text, c.stops, got, ended)
		}
	}
}
