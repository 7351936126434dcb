package datasets

import (
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/internal/golden"
)

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
	var b strings.Builder
	rows := []struct {
		name string
		t    tokenizer.Tokenizer
	}{{"char", tokenizer.NewChars(text)}, {"bpe:512", learnt(512)}, {"bpe:4096", learnt(4096)}, {"gpt2", tokenizer.GPT2()}}
	for i, row := range rows {
		ids, err := row.t.Encode(t.Context(), nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		y, at := top+float64(i)*1.6*high, 0
		fmt.Fprintf(&b, `<text x="8" y="%.1f">%s</text>`+"\n", y+18, row.name)
		for j, id := range ids {
			token := tokenizer.Text(row.t, id)
			x := left + wide*float64(at)
			fill := []string{"#cfe0f3", "#d9ecd0", "#f6e3c5"}[j%3]
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%d</title></rect>`, x, y, wide*float64(len(token))-1, high, fill, id)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" xml:space="preserve" textLength="%.1f">%s</text>`+"\n",
				x, y+18, wide*float64(len(token)), html.EscapeString(strings.ReplaceAll(token, " ", "·")))
			at += len(token)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#57606a">%d tokens</text>`+"\n", left+wide*float64(len(text))+12, y+18, len(ids))
	}
	width, height := left+wide*float64(len(text))+110, top+1.6*high*float64(len(rows))
	golden.Check(t, "../docs/text.svg", fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="monospace" font-size="15">`+"\n"+
		`<title>The same text as tokens of four tokenizers</title><rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n%s</svg>\n", width, height, b.String()))
}
