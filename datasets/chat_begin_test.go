package datasets

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// What begins a prompt is what transformers puts there: add_bos_token comes first, then the class of the
// tokenizer, then the post_processor of tokenizer.json.
func TestWithBegin(t *testing.T) {
	const template = `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [8], "tokens": ["</s>"]}}}`
	for _, c := range []struct {
		config, post string
		want         []uint32
	}{
		{`{}`, `null`, nil}, {`{}`, `{"type": "ByteLevel"}`, nil}, {`{}`, template, []uint32{7}},
		{`{}`, `{"type": "Sequence", "processors": [{"type": "ByteLevel"}, ` + template + `]}`, []uint32{7}},
		{`{"add_bos_token": true}`, `null`, []uint32{'@'}}, {`{"add_bos_token": false}`, template, nil},
		{`{"tokenizer_class": "LlamaTokenizer"}`, `null`, []uint32{'@'}}, {`{"tokenizer_class": "LlamaTokenizer", "add_bos_token": false}`, template, nil},
		{`{"tokenizer_class": "PreTrainedTokenizerFast"}`, template, []uint32{7}}, {`{"tokenizer_class": "GPT2Tokenizer"}`, `null`, nil},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"tokenizer_config.json": c.config, "tokenizer.json": `{"post_processor": ` + c.post + `}`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := WithBegin(t.Context(), dir, &chat.Format{Special: map[string]string{"bos_token": "@"}}, tokenizer.Bytes{})
		if err != nil || !slices.Equal(f.Begin, c.want) || f.Special["bos_token"] != "@" {
			t.Errorf("%s, %s: %+v, want %v; %v", c.config, c.post, f, c.want, err)
		}
		none, err := WithBegin(t.Context(), dir, nil, tokenizer.Bytes{})
		if err != nil || c.post == "null" && none != nil {
			t.Errorf("%s, without a format: %+v; %v", c.config, none, err)
		}
	}
	if f, err := WithBegin(t.Context(), t.TempDir(), nil, tokenizer.Bytes{}); f != nil || err != nil {
		t.Errorf("an empty folder: %+v, %v", f, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"add_bos_token": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WithBegin(t.Context(), dir, nil, tokenizer.Bytes{}); err == nil {
		t.Error("an add_bos_token of 1 is no error")
	}
	if f := (&chat.Format{Begin: []uint32{7}}).Within(7); f.Begin != nil {
		t.Errorf("%v is beyond the vocabulary", f.Begin)
	}
}
