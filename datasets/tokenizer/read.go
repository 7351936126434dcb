package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Limits on a tokenizer.json. The largest in use have half of them.
const (
	mostTokens = 1 << 22
	mostToken  = 1 << 16 // bytes of a token's name
	mostSplits = 16
	mostExtra  = 1 << 16 // added tokens

	mostExtraBytes = 1 << 20 // of all added tokens
)

// Parse reads the contents of a tokenizer.json with a byte pair encoding: a byte-level one,
// or one like SentencePiece's. The post processor is left out: Encode adds no tokens around a
// text.
func Parse(b []byte) (*BPE, error) {
	var f struct {
		AddedTokens  []addedJSON     `json:"added_tokens"`
		Normalizer   json.RawMessage `json:"normalizer"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Decoder      json.RawMessage `json:"decoder"`
		Model        json.RawMessage `json:"model"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, notJSON(b, "", err)
	}
	if len(f.Model) == 0 {
		return nil, unsupported("model", "is missing", "give a tokenizer.json of Hugging Face's tokenizers")
	}
	var m modelJSON
	if kind := typeOf(f.Model); kind != "BPE" && kind != untyped {
		return nil, unsupported("model.type", kind+" is not supported", supported)
	}
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return nil, notJSON(nil, "model", err)
	}
	p := parts{kind: "bpe"}
	read := p.readByteLevelParts
	if m.ByteFallback {
		p.spaces = &sentencePiece{fuse: m.FuseUnk}
		read = p.readSpacesParts
	}
	if err := read(f.Normalizer, f.PreTokenizer, f.Decoder); err != nil {
		return nil, err
	}
	if err := p.readModel(m, f.AddedTokens); err != nil {
		return nil, err
	}
	return p.build()
}

// readByteLevelParts reads what is around a byte-level model.
func (p *parts) readByteLevelParts(normalizer, preTokenizer, decoder json.RawMessage) (err error) {
	switch kind := typeOf(normalizer); kind {
	case "":
	case "NFC":
		p.nfc = true
	default:
		return unsupported("normalizer", kind+" is not supported with ByteLevel", supported)
	}
	if kind := typeOf(decoder); kind != "" && kind != "ByteLevel" {
		return unsupported("decoder", kind+" is not supported with ByteLevel", supported)
	}
	if p.split, err = readSplit(preTokenizer, "pre_tokenizer", 0); err != nil {
		return err
	}
	if len(p.split) == 0 {
		return unsupported("pre_tokenizer", "splits no text into words", supported)
	}
	return nil
}

// build makes the tokenizer, which is gpt2 if it is the one inside the binary.
func (p parts) build() (*BPE, error) {
	t, err := newBPE(p)
	if err != nil {
		return nil, err
	}
	if t.Hash() == gpt2Hash {
		t.kind = "gpt2"
	}
	return t, t.fits(mostFile)
}

// supported says which files are read.
const supported = "only a BPE is read, byte-level as those of GPT-2, Llama 3 and Qwen2, or with byte_fallback as those of Llama 2 and Mistral"

// unsupported is the error about a part of a tokenizer.json.
func unsupported(key, what, do string) error {
	return fmt.Errorf("%w: %s: %s; %s", ErrFormat, key, what, do)
}

// notJSON adds the line and column to an error of decoding b.
func notJSON(b []byte, key string, err error) error {
	if key != "" {
		return fmt.Errorf("%w: %s: %v", ErrFormat, key, err)
	}
	at := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = e.Offset
	}
	if at < 0 || at > int64(len(b)) {
		return fmt.Errorf("%w: %v", ErrFormat, err)
	}
	before := b[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("%w: line %d, column %d: %v: expected a tokenizer.json", ErrFormat, line, max(1, column), err)
}

// untyped is in place of the type of a part that has none.
const untyped = "a part without a type"

// typeOf is the type of a part of the file; "" if there is none.
func typeOf(part json.RawMessage) string {
	if len(part) == 0 || string(part) == "null" {
		return ""
	}
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(part, &p); err != nil || p.Type == "" {
		return untyped
	}
	return p.Type
}

// readSplit reads a pre-tokenizer as the splitters that it consists of.
func readSplit(part json.RawMessage, key string, depth int) ([]splitter, error) {
	switch kind := typeOf(part); {
	case kind == "ByteLevel":
		return readByteLevel(part, key)
	case kind == "Split":
		split, err := readPattern(part, key)
		if err == nil && depth == 0 {
			err = unsupported(key, noByteLevel, supported)
		}
		return split, err
	case kind == "Sequence" && depth == 0:
		return readSequence(part, key)
	case kind == "":
		return nil, unsupported(key, "is missing", supported)
	default:
		return nil, unsupported(key, kind+" is not supported", supported)
	}
}

func readSequence(part json.RawMessage, key string) (all []splitter, err error) {
	var s struct {
		PreTokenizers []json.RawMessage `json:"pretokenizers"`
	}
	if err := json.Unmarshal(part, &s); err != nil {
		return nil, notJSON(nil, key, err)
	}
	if len(s.PreTokenizers) > mostSplits {
		return nil, unsupported(key, fmt.Sprintf("%d parts are more than %d", len(s.PreTokenizers), mostSplits), supported)
	}
	byteLevel := false
	for i, x := range s.PreTokenizers {
		key := fmt.Sprintf("%s.pretokenizers[%d]", key, i)
		if byteLevel { // it would split the names of bytes
			return nil, unsupported(key, "comes after ByteLevel", supported)
		}
		split, err := readSplit(x, key, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, split...)
		byteLevel = typeOf(x) == "ByteLevel"
	}
	if !byteLevel {
		return nil, unsupported(key, noByteLevel, supported)
	}
	return all, nil
}

const noByteLevel = "has no ByteLevel"

func readByteLevel(part json.RawMessage, key string) ([]splitter, error) {
	b := byteLevelJSON{UseRegex: true} // where the key is left out
	if err := json.Unmarshal(part, &b); err != nil {
		return nil, notJSON(nil, key, err)
	}
	if b.AddPrefixSpace {
		return nil, unsupported(key, "add_prefix_space true is not supported", supported)
	}
	if !b.UseRegex {
		return nil, nil
	}
	return []splitter{gpt2Split{}}, nil
}

func readPattern(part json.RawMessage, key string) ([]splitter, error) {
	var s splitJSON
	if err := json.Unmarshal(part, &s); err != nil {
		return nil, notJSON(nil, key, err)
	}
	isolated := s.Behavior == "Isolated" && !s.Invert
	switch {
	case s.Pattern.Regex == "":
		return nil, unsupported(key, "has no pattern.Regex", supported)
	case !isolated && !(s.Behavior == "Removed" && s.Invert):
		return nil, unsupported(key, fmt.Sprintf("behavior %s with invert %v is not supported", s.Behavior, s.Invert), supported)
	}
	split, err := newSplit(s.Pattern.Regex, isolated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return []splitter{split}, nil
}

// readModel reads the vocabulary and the merges.
func (p *parts) readModel(m modelJSON, added []addedJSON) error {
	if m.Type == "" && len(m.Merges) == 0 { // a file of 2020, such as GPT-2's own, has merges and no type
		return unsupported("model.type", "is missing", supported)
	}
	given := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return unsupported("model.dropout", "is not supported", "set it to null")
	case given(m.Prefix):
		return unsupported("model.continuing_subword_prefix", "is not supported", supported)
	case given(m.Suffix):
		return unsupported("model.end_of_word_suffix", "is not supported", supported)
	}
	p.whole = m.IgnoreMerges
	ids, err := p.readVocab(m.Vocab, added)
	if err != nil {
		return err
	}
	if p.spaces != nil {
		if ids, err = p.readNames(ids, m.UnkToken); err != nil {
			return err
		}
	}
	return p.readMerges(m.Merges, ids)
}

// readVocab reads the tokens, and gives their ids by name.
func (p *parts) readVocab(vocab json.RawMessage, added []addedJSON) (map[string]uint32, error) {
	ids := map[string]uint32{}
	if err := json.Unmarshal(vocab, &ids); err != nil {
		return nil, notJSON(nil, "model.vocab", err)
	}
	names := map[uint32]string{}
	for name, id := range ids {
		if first, twice := names[id]; twice {
			return nil, unsupported("model.vocab", fmt.Sprintf("%q and %q have the same id %d", min(first, name), max(first, name), id), "give each token its own")
		}
		names[id] = name
	}
	if len(added) > mostExtra {
		return nil, unsupported("added_tokens", fmt.Sprintf("%d are more than %d", len(added), mostExtra), "is it the right file?")
	}
	special, bytes := map[uint32]bool{}, 0
	for i, a := range added {
		if bytes += len(a.Content); bytes > mostExtraBytes {
			return nil, unsupported("added_tokens", fmt.Sprintf("have more than %d MiB", mostExtraBytes>>20), "is it the right file?")
		}
		key := fmt.Sprintf("added_tokens[%d]", i)
		name, taken := names[a.ID]
		switch {
		case a.Content == "" || len(a.Content) > mostAdded:
			return nil, unsupported(key, fmt.Sprintf("content has %d bytes", len(a.Content)), fmt.Sprintf("1 to %d are supported", mostAdded))
		case taken && name != a.Content || special[a.ID]:
			return nil, unsupported(key, fmt.Sprintf("id %d is %q too", a.ID, name), "give each token its own")
		case a.SingleWord || a.LStrip || a.RStrip:
			return nil, unsupported(key, "single_word, lstrip and rstrip are not supported", supported)
		}
		special[a.ID], names[a.ID] = true, a.Content
		p.added = append(p.added, Added{a.ID, a.Content, a.Special, a.Normalized && (p.nfc || p.spaces != nil)})
	}
	if err := p.fillTokens(names, special); err != nil {
		return nil, err
	}
	return ids, nil
}

// fillTokens puts the tokens in the order of their ids, which have no gaps.
func (p *parts) fillTokens(names map[uint32]string, added map[uint32]bool) error {
	if len(names) > mostTokens {
		return unsupported("model.vocab", fmt.Sprintf("%d tokens are more than %d", len(names), mostTokens), "is it the right file?")
	}
	p.tokens = make([]string, len(names))
	for id := range uint32(len(names)) {
		name, ok := names[id]
		if !ok {
			return unsupported("model.vocab", fmt.Sprintf("id %d has no token", id), fmt.Sprintf("%d tokens must have the ids from 0 on", len(names)))
		}
		if len(name) > mostToken {
			return unsupported("model.vocab", fmt.Sprintf("token %d has %d bytes, more than %d", id, len(name), mostToken), "is it the right file?")
		}
		if p.tokens[id] = name; added[id] || p.spaces != nil {
			continue
		}
		if p.tokens[id], ok = unnamed(name); !ok || name == "" {
			return unsupported("model.vocab", fmt.Sprintf("token %q is not byte-level", name), supported)
		}
	}
	return nil
}

// readMerges reads merges, each "left right" or ["left", "right"], one by one: a file of nothing
// else has millions.
func (p *parts) readMerges(merges json.RawMessage, ids map[string]uint32) error {
	const key = "model.merges"
	dec := json.NewDecoder(bytes.NewReader(merges))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('[') {
		return unsupported(key, "are no list", "is the file complete?")
	}
	for i := 0; dec.More(); i++ {
		var x json.RawMessage
		if err := dec.Decode(&x); err != nil {
			return notJSON(nil, key, err)
		}
		if i == mostTokens {
			return unsupported(key, fmt.Sprintf("are more than %d", mostTokens), "is it the right file?")
		}
		left, right, ok := readMerge(x)
		if !ok || !p.addMerge(left, right, ids) {
			return unsupported(fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%.80s is not two tokens of the vocabulary", x), `expected "left right" or ["left", "right"]`)
		}
	}
	return nil
}

// addMerge adds a merge, unless one of the two is no token.
func (p *parts) addMerge(left, right string, ids map[string]uint32) bool {
	a, okA := ids[left]
	b, okB := ids[right]
	if okA && okB {
		p.pairs = append(p.pairs, pairOf(a, b))
	}
	return okA && okB
}

func readMerge(x json.RawMessage) (left, right string, ok bool) {
	var both []string
	if json.Unmarshal(x, &both) == nil {
		if len(both) != 2 {
			return "", "", false
		}
		return both[0], both[1], true
	}
	var joined string
	if json.Unmarshal(x, &joined) != nil {
		return "", "", false
	}
	return strings.Cut(joined, " ")
}
