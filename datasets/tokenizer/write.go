package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
)

// The parts of Hugging Face's tokenizer.json that a byte-level BPE has.
type (
	fileJSON struct {
		Version       string      `json:"version"`
		Truncation    any         `json:"truncation"`
		Padding       any         `json:"padding"`
		AddedTokens   []addedJSON `json:"added_tokens"`
		Normalizer    any         `json:"normalizer"`
		PreTokenizer  any         `json:"pre_tokenizer"`
		PostProcessor any         `json:"post_processor"`
		Decoder       any         `json:"decoder"`
		Model         modelJSON   `json:"model"`
	}
	addedJSON struct {
		ID         uint32 `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	}
	modelJSON struct {
		Type         string          `json:"type"`
		Dropout      *float64        `json:"dropout"`
		UnkToken     *string         `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
		FuseUnk      bool            `json:"fuse_unk"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
	}
	byteLevelJSON struct {
		Type           string `json:"type"`
		AddPrefixSpace bool   `json:"add_prefix_space"`
		TrimOffsets    bool   `json:"trim_offsets"`
		UseRegex       bool   `json:"use_regex"`
	}
	splitJSON struct {
		Type     string      `json:"type"`
		Pattern  patternJSON `json:"pattern"`
		Behavior string      `json:"behavior"`
		Invert   bool        `json:"invert"`
	}
	patternJSON struct {
		Regex string `json:"Regex"`
	}
	sequenceJSON struct {
		Type          string `json:"type"`
		PreTokenizers []any  `json:"pretokenizers"`
	}
)

// byteLevel is the pre-tokenizer or decoder ByteLevel.
func byteLevel(useRegex bool) byteLevelJSON {
	return byteLevelJSON{Type: "ByteLevel", TrimOffsets: true, UseRegex: useRegex}
}

// Write writes the tokenizer as Hugging Face's tokenizer.json. Equal tokenizers
// give equal bytes.
func (t *BPE) Write(w io.Writer) error {
	empty := ""
	f := fileJSON{
		Version: "1.0", AddedTokens: []addedJSON{},
		Model: modelJSON{Type: "BPE", Prefix: &empty, Suffix: &empty, IgnoreMerges: t.whole != nil,
			Vocab: t.vocabJSON(), Merges: t.mergesJSON()},
	}
	if t.spaces != nil {
		t.spaces.write(&f)
	} else {
		f.PreTokenizer, f.PostProcessor, f.Decoder = t.preTokenizer(), byteLevel(true), byteLevel(true)
		if t.nfc {
			f.Normalizer = map[string]string{"type": "NFC"}
		}
	}
	for _, a := range t.all {
		f.AddedTokens = append(f.AddedTokens, addedJSON{ID: a.ID, Content: a.Text, Normalized: a.Normalized, Special: a.Special})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(f)
}

// write says in a tokenizer.json what goes around the model.
func (s *sentencePiece) write(f *fileJSON) {
	toMark := replaceJSON{"Replace", stringJSON{" "}, mark}
	var normalizers, decoders []any
	if s.prepend {
		normalizers = append(normalizers, map[string]string{"type": "Prepend", "prepend": mark})
	}
	if s.replace {
		normalizers = append(normalizers, toMark)
	}
	if len(normalizers) > 0 {
		f.Normalizer = map[string]any{"type": "Sequence", "normalizers": normalizers}
	}
	if s.meta != nil {
		f.PreTokenizer = metaspaceJSON{Type: "Metaspace", Replacement: mark, Scheme: s.meta.scheme, Split: &s.meta.split}
	}
	decoders = append(decoders, replaceJSON{"Replace", stringJSON{mark}, " "}, map[string]string{"type": "ByteFallback"}, map[string]string{"type": "Fuse"})
	if s.prepend || s.meta != nil && s.meta.scheme != never {
		decoders = append(decoders, stripJSON{"Strip", " ", 1, 0})
	}
	f.Decoder = map[string]any{"type": "Sequence", "decoders": decoders}
	f.Model.ByteFallback, f.Model.FuseUnk, f.Model.Prefix, f.Model.Suffix = true, s.fuse, nil, nil
	if s.unknown != "" {
		f.Model.UnkToken = &s.unknown
	}
}

// stripJSON is the decoder Strip.
type stripJSON struct {
	Type    string `json:"type"`
	Content string `json:"content"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

// preTokenizer says how a text is split: by ByteLevel alone, as GPT-2 does, or by
// a sequence.
func (t *BPE) preTokenizer() any {
	if len(t.split) == 1 && t.split[0] == (gpt2Split{}) {
		return byteLevel(true)
	}
	s := sequenceJSON{Type: "Sequence"}
	for _, x := range t.split {
		expr, isolated := x.pattern()
		split := splitJSON{Type: "Split", Pattern: patternJSON{expr}, Behavior: "Isolated"}
		if !isolated {
			split.Behavior, split.Invert = "Removed", true
		}
		s.PreTokenizers = append(s.PreTokenizers, split)
	}
	s.PreTokenizers = append(s.PreTokenizers, byteLevel(false))
	return s
}

// vocabJSON is a mapping in the order of ids.
func (t *BPE) vocabJSON() json.RawMessage {
	added := map[uint32]bool{}
	for _, a := range t.all {
		added[a.ID] = true
	}
	b := []byte{'{'}
	for id, token := range t.tokens {
		switch {
		case t.spaces != nil && t.spaces.extra[uint32(id)]:
			continue
		case t.spaces != nil:
			token = t.spaces.names[id]
		case !added[uint32(id)]:
			token = named(token)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendJSON(b, token)
		b = append(b, ':')
		b = appendJSON(b, id)
	}
	return append(b, '}')
}

// mergesJSON is a list of "left right", or of ["left", "right"] where names may have spaces.
func (t *BPE) mergesJSON() json.RawMessage {
	b := []byte{'['}
	for i, p := range t.pairs {
		if i > 0 {
			b = append(b, ',')
		}
		if t.spaces != nil {
			b = appendJSON(b, []string{t.name(p.left()), t.name(p.right())})
			continue
		}
		b = appendJSON(b, named(t.tokens[p.left()])+" "+named(t.tokens[p.right()]))
	}
	return append(b, ']')
}

// appendJSON appends a string or a number, without escapes for HTML.
func appendJSON(b []byte, v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("BUG: JSON of a token: " + err.Error())
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// pack is the tokenizer.json, gzipped.
func (t *BPE) pack() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := t.Write(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
