package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// manyDocuments reports whether a document ends before the corpus does.
func (c *corpus) manyDocuments() bool { return c.field != "" || len(c.files) > 1 }

// documents calls f for the text of a piece, and says whether a document ends
// there that another may follow. A document without text is left out.
func (c *corpus) documents(p textPiece, f func(text []byte, ends bool) error) error {
	if c.byLine {
		return c.eachLine(p, func(_ int, text []byte, _ string) error { return f(text, true) })
	}
	if c.field != "" {
		return c.lines(p, f)
	}
	if !c.anyBytes && !utf8.Valid(p.text) {
		bad := p.at.after(p.text[:invalidAt(p.text)])
		return fmt.Errorf("%w: %s:%d:%d: not UTF-8: %s", ErrFormat, p.path, bad.line, bad.column, c.insteadOfUTF8())
	}
	err := f(p.text, p.last && c.manyDocuments())
	var unknown *tokenizer.UnknownError
	if errors.As(err, &unknown) {
		at := p.at.after(p.text[:unknown.Offset])
		err = fmt.Errorf("%w: line %d, column %d: %w", ErrFormat, at.line, at.column, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// insteadOfUTF8 says what to do with a text of other bytes.
func (c *corpus) insteadOfUTF8() string {
	if c.learns || c.fixed {
		return "convert the file to UTF-8"
	}
	return "convert the file to UTF-8, or set data.tokenizer to bytes"
}

// lines is documents for JSON lines. Blank lines are left out.
func (c *corpus) lines(p textPiece, f func(text []byte, ends bool) error) error {
	number := p.at.line - 1
	for line := range bytes.Lines(p.text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		text, err := c.lineText(line)
		if err == nil && text != "" {
			err = f([]byte(text), true)
		}
		if err != nil {
			return fmt.Errorf("%w: %s:%d: %w", ErrFormat, p.path, number, err)
		}
	}
	return nil
}

// lineText is the text of a JSON line.
func (c *corpus) lineText(line []byte) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return "", fmt.Errorf("expected a JSON object: %v", err)
	}
	value, ok := object[c.field]
	if !ok {
		return "", fmt.Errorf("the object has no key %q: set %s to one that all lines have", c.field, c.fieldName)
	}
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return "", fmt.Errorf("%q is not a string: set %s to the key of the text", c.field, c.fieldName)
	}
	return *text, nil
}

// eachLine calls f for the lines with text of a piece: of plain text, or of JSON lines.
func (c *corpus) eachLine(p textPiece, f func(number int, text []byte, label string) error) error {
	number := p.at.line - 1
	for line := range strings.Lines(string(p.text)) {
		number++
		text, label, err := strings.TrimRight(line, "\r\n"), "", error(nil)
		if c.field != "" {
			text, label, err = c.labelled(line)
		} else if !c.anyBytes && !utf8.ValidString(text) {
			err = fmt.Errorf("not UTF-8: %s", c.insteadOfUTF8())
		}
		if err == nil && text != "" {
			err = f(number, []byte(text), label)
		}
		var unknown *tokenizer.UnknownError
		if errors.As(err, &unknown) {
			err = fmt.Errorf("column %d: %w", utf8.RuneCountInString(text[:unknown.Offset])+1, err)
		}
		if err != nil {
			return fmt.Errorf("%w: %s:%d: %w", ErrFormat, p.path, number, err)
		}
	}
	return nil
}

// labelled is the text and the label of a JSON line; a blank line has none.
func (c *corpus) labelled(line string) (text, label string, err error) {
	if strings.TrimSpace(line) == "" {
		return "", "", nil
	}
	if text, err = c.lineText([]byte(line)); err != nil || c.label == "" {
		return text, "", err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		return "", "", err
	}
	raw, ok := object[c.label]
	switch {
	case !ok || string(raw) == "null":
		return "", "", blame("label", fmt.Errorf("the object has no key %q: set data.label to one that all lines have", c.label))
	case raw[0] == '"':
		err = json.Unmarshal(raw, &label)
		return text, label, err
	case raw[0] == '{' || raw[0] == '[':
		return "", "", blame("label", fmt.Errorf("%q is a list or an object: set data.label to the key of a word or a number", c.label))
	}
	return text, string(raw), nil
}
