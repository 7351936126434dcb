package tokenizer

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
	"sync"
)

// gpt2Merges is GPT-2's vocab.bpe. README.md names its origin.
//
//go:embed vocab.bpe.gz
var gpt2Merges []byte

// gpt2Hash is GPT2().Hash(), which takes longer to compute than to read a text of a megabyte.
const gpt2Hash = "db01a0a7dd4512eec87deb4c9b988bf2981feba28fe883916f0014fa164ff913"

// GPT2 is the tokenizer of GPT-2, which is inside the binary. The first call takes
// some 0.1 s.
func GPT2() *BPE { return gpt2() }

var gpt2 = sync.OnceValue(func() *BPE {
	t, err := openGPT2()
	if err != nil {
		panic("BUG: tokenizer inside the binary: " + err.Error())
	}
	return t
})

func openGPT2() (*BPE, error) {
	z, err := gzip.NewReader(bytes.NewReader(gpt2Merges))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	p := parts{kind: "gpt2", split: []splitter{gpt2Split{}}}
	// The ids of bytes are in the order of their names.
	for name := rune(0); len(p.tokens) < 256; name++ {
		if b, ok := namedByte[name]; ok {
			p.tokens = append(p.tokens, string([]byte{b}))
		}
	}
	ids := make(map[string]uint32, 1<<16)
	for id, token := range p.tokens {
		ids[token] = uint32(id)
	}
	for line := range strings.Lines(string(text)) {
		leftName, rightName, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || strings.HasPrefix(line, "#version") {
			continue
		}
		left, _ := unnamed(leftName)
		right, _ := unnamed(rightName)
		p.pairs = append(p.pairs, pairOf(ids[left], ids[right]))
		ids[left+right] = uint32(len(p.tokens))
		p.tokens = append(p.tokens, left+right)
	}
	p.added = []Added{{ID: uint32(len(p.tokens)), Text: EndOfText, Special: true}}
	p.tokens = append(p.tokens, EndOfText)
	t, err := newBPE(p)
	if err != nil {
		return nil, err
	}
	t.hash = func() string { return gpt2Hash }
	return t, nil
}
