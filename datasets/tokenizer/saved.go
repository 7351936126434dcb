package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// Saved is a tokenizer as a checkpoint keeps it, in JSON: whole, so that no file
// is needed.
type Saved struct{ Tokenizer }

// savedJSON is the JSON of Saved.
type savedJSON struct {
	Kind  string `json:"kind"`
	Chars *Chars `json:"chars,omitempty"` // of char
	File  []byte `json:"file,omitempty"`  // of bpe: tokenizer.json, gzipped
}

// MarshalJSON writes the tokenizer. One that is inside the binary is a name.
func (s Saved) MarshalJSON() ([]byte, error) {
	out := savedJSON{Kind: s.Kind()}
	switch t := s.Tokenizer.(type) {
	case *Chars:
		out.Chars = t
	case *BPE:
		if t.kind == "gpt2" {
			break
		}
		var err error
		if out.File, err = t.packed(); err != nil {
			return nil, err
		}
	case Bytes:
	default:
		return nil, fmt.Errorf("%w: a tokenizer of kind %s cannot be saved", ErrFormat, s.Kind())
	}
	return json.Marshal(out)
}

// fits refuses a tokenizer whose tokenizer.json, which runs keep, has more than most
// bytes: it could not be read again.
func (t *BPE) fits(most int) error {
	bound, each := 1<<16, 2 // bytes that it has at most; a byte of a token takes up to 2, and 6 where it is a character's
	if t.spaces != nil {
		each = 6
	}
	for id := range t.tokens {
		bound += each*len(t.name(uint32(id))) + 24
	}
	for _, p := range t.pairs {
		bound += each*(len(t.name(p.left()))+len(t.name(p.right()))) + 48
	}
	for _, a := range t.all {
		bound += 6*len(a.Text) + 256
	}
	if bound <= most {
		return nil
	}
	var n counter
	if err := t.Write(&n); err != nil || int(n) <= most {
		return err
	}
	return fmt.Errorf("%w: its tokenizer.json, as a run keeps it, has %d MiB, and at most %d can be read: use a smaller vocabulary", ErrFormat, int(n)>>20, most>>20)
}

// counter counts the bytes that are written to it.
type counter int

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

// UnmarshalJSON reads the tokenizer.
func (s *Saved) UnmarshalJSON(b []byte) error {
	var in savedJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	switch {
	case in.Kind == "char" && in.Chars != nil:
		s.Tokenizer = in.Chars
	case in.Kind == "bytes":
		s.Tokenizer = Bytes{}
	case in.Kind == "gpt2":
		s.Tokenizer = GPT2()
	case in.Kind == "bpe":
		t, err := unpack(in.File)
		if err != nil {
			return err
		}
		s.Tokenizer = t
	default:
		return fmt.Errorf("%w: kind %q is unknown: it was saved by a later version", ErrFormat, in.Kind)
	}
	return nil
}

// unpack reads a gzipped tokenizer.json.
func unpack(packed []byte) (*BPE, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	b, err := io.ReadAll(io.LimitReader(z, mostFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return Parse(b)
}
