package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
)

// mostTokenizerFile is the most bytes of a tokenizer.json.
const mostTokenizerFile = 256 << 20

// beginClasses are the tokenizers of Hugging Face's transformers that put bos_token before a text unless
// add_bos_token is false.
var beginClasses = []string{"LlamaTokenizer", "LlamaTokenizerFast"}

// WithBegin is a format, which may be nil, with the tokens that transformers puts before a text of the model
// in a folder of Hugging Face's layout: bos_token where add_bos_token of tokenizer_config.json or its
// tokenizer_class says so, else what the post_processor of tokenizer.json puts there.
func WithBegin(ctx context.Context, dir string, f *chat.Format, t tokenizer.Tokenizer) (*chat.Format, error) {
	var config struct {
		AddBOS *bool  `json:"add_bos_token"`
		Class  string `json:"tokenizer_class"`
	}
	if err := readJSON(filepath.Join(dir, chatConfigFile), mostChatFile, &config); err != nil {
		return nil, err
	}
	adds := slices.Contains(beginClasses, config.Class)
	if config.AddBOS != nil {
		adds = *config.AddBOS
	}
	var begin []uint32
	switch {
	case adds && f != nil && f.Special["bos_token"] != "":
		ids, err := t.EncodeRest(ctx, nil, []byte(f.Special["bos_token"]))
		if err != nil || len(ids) != 1 {
			return f, context.Cause(ctx) // it is no token of the model
		}
		begin = ids
	case config.AddBOS == nil && !adds:
		var err error
		if begin, err = processedBegin(dir); err != nil {
			return nil, err
		}
	}
	if len(begin) == 0 {
		return f, nil
	}
	own := chat.Format{}
	if f != nil {
		own = *f
	}
	own.Begin = begin
	return &own, nil
}

// processor is a post_processor of tokenizer.json, as far as it puts tokens before a text.
type processor struct {
	Type       string
	Processors []processor // of a Sequence
	Single     []struct {
		SpecialToken *struct{ ID string }
	}
	Tokens map[string]struct{ IDs []uint32 } `json:"special_tokens"`
}

// processedBegin are the tokens that the post_processor of a folder's tokenizer.json puts before a text.
func processedBegin(dir string) (ids []uint32, err error) {
	var file struct {
		Post *processor `json:"post_processor"`
	}
	if err := readJSON(filepath.Join(dir, "tokenizer.json"), mostTokenizerFile, &file); err != nil || file.Post == nil {
		return nil, err
	}
	for _, p := range append([]processor{*file.Post}, file.Post.Processors...) {
		if p.Type != "TemplateProcessing" {
			continue
		}
		for _, piece := range p.Single {
			if piece.SpecialToken == nil { // the text
				break
			}
			ids = append(ids, p.Tokens[piece.SpecialToken.ID].IDs...)
		}
	}
	return ids, nil
}

// readJSON reads a file into a value, which stays as it is where there is no file.
func readJSON(path string, most int, value any) error {
	b, err := osfile.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, value)
	}
	if err != nil {
		return blame("tokenizer", fmt.Errorf("%w: %s: %v", ErrFormat, path, strings.TrimPrefix(err.Error(), path+": ")))
	}
	return nil
}
