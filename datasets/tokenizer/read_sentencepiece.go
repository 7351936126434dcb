package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// readSpacesParts reads what is around a model with byte_fallback.
func (p *parts) readSpacesParts(normalizer, preTokenizer, decoder json.RawMessage) error {
	s := p.spaces
	if err := each(normalizer, "normalizer", "normalizers", s.readNormalizer); err != nil {
		return err
	}
	switch kind := typeOf(preTokenizer); kind {
	case "":
	case "Metaspace":
		if err := s.readMetaspace(preTokenizer); err != nil {
			return err
		}
	default:
		return unsupported("pre_tokenizer", kind+" is not supported with byte_fallback", supported)
	}
	if !s.replace && s.meta == nil {
		return unsupported("normalizer", "makes no ▁ of spaces", supported)
	}
	return each(decoder, "decoder", "decoders", readDecoder)
}

// each calls read for a part of the file, or for all that a Sequence has under a key.
func each(part json.RawMessage, key, list string, read func(part json.RawMessage, key string) error) error {
	switch typeOf(part) {
	case "":
		return nil
	case "Sequence":
	default:
		return read(part, key)
	}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(part, &s); err != nil {
		return notJSON(nil, key, err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(s[list], &all); err != nil {
		return notJSON(nil, key+"."+list, err)
	}
	if len(all) > mostSplits {
		return unsupported(key, fmt.Sprintf("%d parts are more than %d", len(all), mostSplits), supported)
	}
	for i, x := range all {
		if err := read(x, fmt.Sprintf("%s.%s[%d]", key, list, i)); err != nil {
			return err
		}
	}
	return nil
}

// replaceJSON is the normalizer or decoder Replace, and other parts with some of its keys.
type replaceJSON struct {
	Type    string     `json:"type"`
	Pattern stringJSON `json:"pattern"`
	Content string     `json:"content"`
}

type stringJSON struct {
	String string `json:"String"`
}

func (s *sentencePiece) readNormalizer(part json.RawMessage, key string) error {
	var n struct {
		replaceJSON
		Prepend string `json:"prepend"`
	}
	kind := typeOf(part)
	if err := json.Unmarshal(part, &n); err != nil {
		return notJSON(nil, key, err)
	}
	switch {
	case kind == "Prepend" && n.Prepend == mark && !s.prepend:
		s.prepend = true
	case kind == "Replace" && n.Pattern.String == " " && n.Content == mark:
		s.replace = true
	case kind == "Prepend":
		return unsupported(key, fmt.Sprintf("Prepend of %.40q is not supported here", n.Prepend), "a ▁ is, once")
	case kind == "Replace":
		return unsupported(key, fmt.Sprintf("Replace of %.80s is not supported", part), "a ▁ for each space is")
	default:
		return unsupported(key, kind+" is not supported with byte_fallback", supported)
	}
	return nil
}

// metaspaceJSON is the pre-tokenizer Metaspace. Older files have add_prefix_space in place of
// the scheme.
type metaspaceJSON struct {
	Type        string `json:"type"`
	Replacement string `json:"replacement"`
	Prefix      *bool  `json:"add_prefix_space,omitempty"`
	Scheme      string `json:"prepend_scheme"`
	Split       *bool  `json:"split"`
}

func (s *sentencePiece) readMetaspace(part json.RawMessage) error {
	const key = "pre_tokenizer"
	var m metaspaceJSON
	if err := json.Unmarshal(part, &m); err != nil {
		return notJSON(nil, key, err)
	}
	s.meta = &metaspace{scheme: m.Scheme, split: m.Split == nil || *m.Split}
	switch {
	case m.Prefix != nil && !*m.Prefix:
		s.meta.scheme = never
	case m.Scheme == "":
		s.meta.scheme = always
	case m.Scheme != always && m.Scheme != firstOnly && m.Scheme != never:
		return unsupported(key, fmt.Sprintf("prepend_scheme %.40q is not supported", m.Scheme), "always, first and never are")
	}
	if m.Replacement != mark {
		return unsupported(key, fmt.Sprintf("replacement %.40q is not supported", m.Replacement), "▁ is")
	}
	return nil
}

// readDecoder checks that a decoder gives the text that ids have here.
func readDecoder(part json.RawMessage, key string) error {
	var d struct {
		replaceJSON
		Start int `json:"start"`
		Stop  int `json:"stop"`
	}
	kind := typeOf(part)
	if err := json.Unmarshal(part, &d); err != nil {
		return notJSON(nil, key, err)
	}
	switch {
	case kind == "ByteFallback", kind == "Fuse", kind == "Metaspace",
		kind == "Replace" && d.Pattern.String == mark && d.Content == " ",
		kind == "Strip" && d.Content == " " && d.Start <= 1 && d.Stop == 0:
		return nil
	case kind == "Replace" || kind == "Strip":
		return unsupported(key, fmt.Sprintf("%.120s is not supported", part), "a space for each ▁, and one less at the beginning, are")
	}
	return unsupported(key, kind+" is not supported with byte_fallback", supported)
}

// readNames takes the names of the tokens, and makes text of them. It gives the ids of those
// that merges may be of.
func (p *parts) readNames(ids map[string]uint32, unknown *string) (map[string]uint32, error) {
	s := p.spaces
	s.names, s.extra = p.tokens, map[uint32]bool{}
	for _, a := range p.added {
		if _, ok := ids[a.Text]; !ok {
			s.extra[a.ID] = true
		}
	}
	if unknown != nil && *unknown != "" {
		if _, ok := ids[*unknown]; !ok {
			return nil, unsupported("model.unk_token", fmt.Sprintf("%.80q is not in the vocabulary", *unknown), "is the file complete?")
		}
		s.unknown = *unknown
	}
	p.tokens = make([]string, len(s.names))
	for id, name := range s.names {
		if name == "" {
			return nil, unsupported("model.vocab", fmt.Sprintf("token %d has no text", id), supported)
		}
		if p.tokens[id] = strings.ReplaceAll(name, mark, " "); isByteName(name) {
			b, _ := strconv.ParseUint(name[3:5], 16, 8)
			p.tokens[id] = string([]byte{byte(b)})
			delete(ids, name)
		}
	}
	for _, a := range p.added { // they are in texts as they are
		p.tokens[a.ID] = a.Text
	}
	return ids, nil
}

// isByteName reports whether a name is that of a byte's token.
func isByteName(name string) bool {
	if len(name) != len("<0x00>") || !strings.HasPrefix(name, "<0x") || name[5] != '>' {
		return false
	}
	b, err := strconv.ParseUint(name[3:5], 16, 8)
	return err == nil && byteName(int(b)) == name
}
