package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// learnPrefix begins the name of a tokenizer that is learnt from the text.
const learnPrefix = "bpe:"

// learns is the number of tokens that are asked of the text; 0 if the tokenizer is
// not learnt from it.
func (s Spec) learns() int {
	number, learns := strings.CutPrefix(s.Text.Tokenizer, learnPrefix)
	if !learns || s.knownTokenizer() != nil {
		return 0
	}
	n, _ := strconv.Atoi(number) // the text was opened with it
	return n
}

// knownTokenizer is the tokenizer that a model was trained with; nil before.
func (s Spec) knownTokenizer() tokenizer.Tokenizer {
	if s.Like != nil {
		return s.Like.Tokenizer
	}
	return s.Text.Known
}

// namedTokenizer is a tokenizer that does not depend on the text.
func namedTokenizer(name string) (tokenizer.Tokenizer, error) {
	switch name {
	case "bytes":
		return tokenizer.Bytes{}, nil
	case "gpt2":
		return tokenizer.GPT2(), nil
	}
	t, err := tokenizer.Load(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: give char, bytes, gpt2, bpe:4096 or the path of a tokenizer.json", err)
	}
	if errors.Is(err, tokenizer.ErrFormat) { // it names the file
		return nil, blame("tokenizer", fmt.Errorf("data.tokenizer: %w", err))
	}
	if err != nil {
		return nil, blame("tokenizer", fmt.Errorf("data.tokenizer %s: %w", name, err))
	}
	return t, nil
}
