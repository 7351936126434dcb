package datasets

import (
	"strings"
	"testing"
)

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
