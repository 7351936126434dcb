package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// textIDs are the ids of a text's characters, each in the fewest bytes that the
// vocabulary needs.
type textIDs struct {
	data  []byte
	width int // bytes of an id: 1, 2 or 4
}

// idWidth is the bytes of an id below count.
func idWidth(count int) int {
	switch {
	case count <= math.MaxUint8+1:
		return 1
	case count <= math.MaxUint16+1:
		return 2
	}
	return 4
}

func (t *textIDs) len() int { return len(t.data) / t.width }

// add appends an id. data keeps its array as long as it has room.
func (t *textIDs) add(id int32) {
	switch t.width {
	case 1:
		t.data = append(t.data, byte(id))
	case 2:
		t.data = binary.LittleEndian.AppendUint16(t.data, uint16(id))
	default:
		t.data = binary.NativeEndian.AppendUint32(t.data, uint32(id))
	}
}

// slice is the ids from one position to another.
func (t *textIDs) slice(from, to int) textIDs {
	return textIDs{t.data[from*t.width : to*t.width], t.width}
}

// column is the input of consecutive windows of that many ids.
func (t textIDs) column(window int) column {
	field := Field{"input", shape.I32(window)}
	switch t.width {
	case 1:
		return storedColumn(field, t.data, safetensors.U8)
	case 2:
		return storedColumn(field, t.data, safetensors.U16)
	}
	return newColumn(field, t.data)
}

// textFile is a text that is read in pieces: twice, so that no more than the ids
// is ever in memory.
type textFile struct {
	path   string
	memory int64 // most bytes that the ids may take; 0: no limit
	open   func(context.Context) (*stream, error)
}

// textAt is the text at a path. It checks the options.
func textAt(s Spec, path string) (*textFile, error) {
	if s.Text.Context < 1 {
		return nil, fmt.Errorf("%w: text needs a context of at least 1 character, not %d", ErrSpec, s.Text.Context)
	}
	t := &textFile{path: path, memory: s.Memory, open: func(ctx context.Context) (*stream, error) { return openStream(ctx, path) }}
	if path == BuiltinShakespeare {
		t.open = func(ctx context.Context) (*stream, error) { return openBuiltin(ctx, "tinyshakespeare.txt.gz") }
	}
	return t, nil
}

// encode gives the ids of the text's characters in vocab, or in the text's own
// vocabulary if that is nil.
func (t *textFile) encode(ctx context.Context, vocab *Vocabulary) (textIDs, *Vocabulary, error) {
	var seen runeSet
	var count int64
	err := t.each(ctx, func(text []byte, _ textPos) error {
		for len(text) > 0 {
			r, n := utf8.DecodeRune(text)
			seen.add(r)
			count++
			text = text[n:]
		}
		return nil
	})
	if err != nil {
		return textIDs{}, nil, err
	}
	if vocab == nil {
		vocab = seen.vocabulary()
	}
	ids := textIDs{width: idWidth(vocab.Len())}
	need := count * int64(ids.width)
	if err := fits(t.path, need, t.memory); err != nil {
		return textIDs{}, nil, err
	}
	ids.data = make([]byte, 0, need)
	err = t.each(ctx, func(text []byte, at textPos) error { return ids.encode(vocab, text, at) })
	if err == nil && int64(len(ids.data)) != need {
		err = fmt.Errorf("%w: %s changed while it was read: start again once it is complete", ErrFormat, t.path)
	}
	return ids, vocab, err
}

// encode adds the ids of a piece of text that begins at a position.
func (t *textIDs) encode(vocab *Vocabulary, text []byte, from textPos) error {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		id := vocab.id(r)
		if id < 0 {
			return vocab.lacks(r, from.after(text[:at]))
		}
		t.add(id)
		at += n
	}
	return nil
}

// each reads the text from beginning to end, and calls f for each piece of whole
// characters and its position. The text must be UTF-8.
func (t *textFile) each(ctx context.Context, f func(text []byte, at textPos) error) error {
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(eachPiece(s, t.path, f), s.Close())
}

// eachPiece is textFile.each for what r reads.
func eachPiece(r io.Reader, path string, f func(text []byte, at textPos) error) error {
	at := start
	buf := make([]byte, pieceBytes)
	for have, ended := 0, false; !ended; {
		n, err := io.ReadFull(r, buf[have:])
		have += n
		if ended = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !ended {
			return fmt.Errorf("%s: %w", path, err)
		}
		whole := have
		if !ended {
			whole = wholeRunes(buf[:have])
		}
		text := buf[:whole]
		if !utf8.Valid(text) {
			bad := at.after(text[:invalidAt(text)])
			return fmt.Errorf("%w: %s:%d:%d: not UTF-8: convert the file to UTF-8", ErrFormat, path, bad.line, bad.column)
		}
		if err := f(text, at); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		at = at.after(text)
		have = copy(buf, buf[whole:have])
	}
	return nil
}

// wholeRunes is the length of b without a character at its end that is cut off.
func wholeRunes(b []byte) int {
	for n := len(b) - 1; n >= max(0, len(b)-utf8.UTFMax+1); n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return n
			}
			break
		}
	}
	return len(b)
}

// invalidAt is the position of the first byte of a text that is not UTF-8.
func invalidAt(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return len(text)
}
