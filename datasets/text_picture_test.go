package datasets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/svg"
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
