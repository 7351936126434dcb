package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/internal/units"
)

// MaxFile is the size in bytes beyond which no file is a config.
const MaxFile = 1 << 20

// Further limits on a file. A real config is far below each of them; together
// they bound the time and memory that any file takes.
const (
	maxNodes = 100_000 // keys and values, aliases expanded
	maxDepth = 64
)

// readConfig parses a file into a tree whose root is a mapping.
func readConfig(file string, data []byte) (*yaml.Node, error) {
	root, err := readYAML(file, data)
	if err == nil && root.Kind != yaml.MappingNode {
		err = &Error{Pos: Pos{file, root.Line}, Msg: fmt.Sprintf("expected a mapping of keys such as data, model and train, got %s", describe(root))}
	}
	return root, err
}

// readYAML parses one document into a tree of mappings, lists and scalars, with
// aliases expanded.
func readYAML(file string, data []byte) (*yaml.Node, error) {
	fault := func(line int, format string, args ...any) error {
		return &Error{Pos: Pos{file, line}, Msg: fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxFile {
		return nil, fault(0, "the file has more than %s, the limit for a config; is it the right file?", units.Bytes(MaxFile))
	}
	if !utf8.Valid(data) {
		return nil, fault(badLine(data), "the file is not UTF-8 text; save it as UTF-8")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fault(0, "the file is empty; a config needs at least data and model (`trainer configs show digits` prints one)")
	case err != nil:
		return nil, syntaxFault(file, data, err)
	}
	if err := dec.Decode(&next); err == nil {
		return nil, fault(next.Line, "a second document starts here; a config is one document, remove what follows ---")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(file, data, err)
	}
	c := copier{file: file}
	root := c.copy(doc.Content[0], 0)
	return root, c.err
}

// badLine gives the line of the first byte that is not UTF-8.
func badLine(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		data = data[n:]
	}
	return line
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

// syntaxFault turns the error "yaml: line 3: …" of a text into an Error at that
// line.
func syntaxFault(file string, data []byte, err error) error {
	if inQuotes(err) {
		return &Error{Pos: Pos{file, firstLine(data, inQuotes)}, Msg: "not YAML: the quote that opens here is never closed; close it, or take it out"}
	}
	msg := err.Error()
	m := yamlLine.FindStringSubmatch(msg)
	line, _ := strconv.Atoi(m[1])
	cause := strings.TrimPrefix(msg, m[0])
	switch {
	case line == 0, cause == "did not find expected key", cause == "did not find expected '-' indicator":
		// The parser names no line for the first one, and for some mistakes; for these two that of the mapping or list.
		line = firstLine(data, func(err error) bool { return err.Error() == msg })
	case strings.HasPrefix(cause, "did not find expected"): // it counts from 0, and may point behind the text
		line = min(line+1, bytes.Count(bytes.TrimRight(data, "\n"), []byte{'\n'})+1)
	}
	for _, l := range []int{line, line + 1} { // yaml places some mistakes a line early
		if indentedByTab(data, l) {
			return &Error{Pos: Pos{file, l}, Msg: "not YAML: a tab indents this line: use spaces"}
		}
	}
	return &Error{Pos: Pos{file, line}, Msg: "not YAML: " + cause + "; check indentation, colons and quotes near here"}
}

// indentedByTab reports whether a line, from 1 on, begins with a tab, or with spaces and a
// tab.
func indentedByTab(data []byte, line int) bool {
	lines := bytes.SplitN(data, []byte{'\n'}, line+1)
	return line <= len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[line-1], " "), []byte{'\t'})
}

// inQuotes reports whether an error of the YAML parser means that the text ends
// within quotes. It names the text's end, which may be far from the mistake.
func inQuotes(err error) bool { return strings.Contains(err.Error(), "found unexpected end of stream") }

// firstLine is the line of a mistake: the first one up to which the text has an
// error that is the mistake's. It tries few lines, and takes it that the text up to
// any later line has such an error too: quotes of several lines before one that is
// never closed can mislead it.
func firstLine(data []byte, is func(err error) bool) int {
	var ends []int // of lines
	at := 0
	for line := range bytes.Lines(data) {
		at += len(line)
		ends = append(ends, at)
	}
	return 1 + sort.Search(len(ends), func(i int) bool {
		dec := yaml.NewDecoder(bytes.NewReader(data[:ends[i]]))
		for {
			var doc yaml.Node
			if err := dec.Decode(&doc); err != nil {
				return is(err)
			}
		}
	})
}

// A copier copies a tree, expanding aliases, within the limits.
type copier struct {
	file    string
	nodes   int
	aliases bool // one was expanded
	err     error
}

func (c *copier) copy(n *yaml.Node, depth int) *yaml.Node {
	c.nodes++
	switch {
	case c.err != nil:
		return n
	case depth > maxDepth:
		c.fail(n, "nested more than %d deep; write it flatter, with no alias inside its own value", maxDepth)
		return n
	case c.nodes > maxNodes && c.aliases:
		c.fail(n, "more than %s values with aliases expanded; write fewer aliases", units.Thousands(maxNodes))
		return n
	case c.nodes > maxNodes:
		c.fail(n, "more than %s values, the limit for a config; is it the right file?", units.Thousands(maxNodes))
		return n
	case n.Kind == yaml.AliasNode:
		c.aliases = true
		return c.copy(n.Alias, depth+1)
	}
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.ShortTag() == "!!merge" {
			c.fail(child, "merge keys (<<) are not supported; write the keys out")
		}
		out.Content = append(out.Content, c.copy(child, depth+1))
	}
	return out
}

func (c *copier) fail(n *yaml.Node, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Pos: Pos{c.file, n.Line}, Msg: fmt.Sprintf(format, args...)}
	}
}
