package datasets

import (
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// A class is named by its own word, and one of two that are such as yes and no by any such word.
func TestClassNamed(t *testing.T) {
	for _, c := range []struct {
		classes []string
		name    string
		want    int // -1: there is none
	}{
		{[]string{"false", "true"}, "true", 1}, {[]string{"false", "true"}, "yes", 1}, {[]string{"yes", "no"}, "off", 1},
		{[]string{"0", "1"}, "yes", 1}, {[]string{"no", "red"}, "off", -1}, {[]string{"no", "yes", "?"}, "true", -1},
		{[]string{"n", "y"}, "maybe", -1}, {nil, "1", 1}, {nil, "true", -1},
	} {
		info := Info{ClassNames: c.classes, Classes: 2}
		if got, ok := info.ClassNamed(c.name); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s of %q: %d, %v, want %d", c.name, c.classes, got, ok, c.want)
		}
	}
}

// The names of tokens are texts, also where a token is a part of a character.
func TestClassNameOfABytesToken(t *testing.T) {
	info := Info{Tokenizer: tokenizer.Bytes{}, Classes: 256}
	for class, want := range map[int]string{'a': "a", '\n': "\n", 0x80: `\x80`, 0xff: `\xff`, 256: ""} {
		if got := info.ClassName(class); got != want {
			t.Errorf("token %d is %q, want %q", class, got, want)
		}
	}
}
