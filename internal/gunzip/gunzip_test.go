package gunzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What a file has behind its end is told from what it lacks.
func TestEnds(t *testing.T) {
	a, b := packed(t, "one "), packed(t, "two")
	flipped := bytes.Clone(a)
	flipped[len(a)-8] ^= 1
	for name, c := range map[string]struct {
		file []byte
		text string
		err  error
	}{
		"one member":        {a, "one ", nil},
		"two members":       {append(bytes.Clone(a), b...), "one two", nil},
		"an empty member":   {append(packed(t, ""), b...), "two", nil},
		"zeros behind":      {append(bytes.Clone(a), 0, 0, 0), "one ", nil},
		"a byte behind":     {append(bytes.Clone(a), 'x'), "one ", ErrBehind},
		"text behind":       {append(bytes.Clone(a), "a text that is not packed"...), "one ", ErrBehind},
		"text behind zeros": {append(bytes.Clone(a), 0, 0, 'x'), "one ", ErrBehind},
		"cut off":           {a[:len(a)-3], "one ", io.ErrUnexpectedEOF},
		"cut in the next":   {append(bytes.Clone(a), b[:5]...), "one ", io.ErrUnexpectedEOF},
		"cut in the header": {a[:4], "", io.ErrUnexpectedEOF},
		"another sum":       {flipped, "one ", gzip.ErrChecksum},
		"no packed file":    {[]byte("a text that is not packed"), "", gzip.ErrHeader},
		"nothing":           {nil, "", io.ErrUnexpectedEOF},
	} {
		for _, in := range []io.Reader{bytes.NewReader(c.file), iotest.OneByteReader(bytes.NewReader(c.file))} {
			var got []byte
			r, err := NewReader(in)
			if err == nil {
				got, err = io.ReadAll(r)
			}
			if string(got) != c.text || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.text, c.err)
			}
		}
	}
}
