package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/filecache"
)

// corpus is a text of documents: files, or the lines of files of JSON lines. It
// is read in pieces, so that it need not fit in memory.
type corpus struct {
	files    []textFile
	field    string      // of JSON lines, the key of the text; "": a file is a document
	label    string      // of JSON lines, the key of a text's class; valid with byLine
	byLine   bool        // each line is a document
	chats    *chatFormat // the field is a list of messages, which this makes a text of; nil: it is the text
	lacks    bool        // the first line is an object without the field
	anyBytes bool        // the text need not be UTF-8
	size     int64       // bytes of the files
	content  []byte      // hash of the files; nil until key needs it
	read     atomic.Int64
	texts    recycled[byte]                    // of pieces
	progress func(doing string, share float64) // nil: nobody asks

	learns    bool   // a tokenizer is all that the text is for
	fieldName string // names field in errors
	fixed     bool   // the tokenizer is that of training
	leftOut   int    // files of folders that are no JSON lines
	oneLeft   string // the first of them
	twice     string // a file that two paths stand for
	uncached  error  // why what is made of a large text is not kept; nil: it is
}

// textFile is a file of a corpus.
type textFile struct {
	path string
	open func(context.Context) (*files.Stream, error)
}

// openCorpus lists the files of paths. A folder stands for all files in it and
// below it, in the order of their names; names that begin with a dot are left out,
// and with a field all but JSON lines.
func openCorpus(s Spec, paths ...string) (*corpus, error) {
	c := &corpus{field: s.Text.Field, progress: s.Text.Progress, fieldName: "data.field", fixed: s.knownTokenizer() != nil}
	return c, c.addAll(paths)
}

// addAll adds the files of paths.
func (c *corpus) addAll(paths []string) error {
	seen := map[string]bool{}
	for _, path := range paths {
		before := len(c.files)
		if err := c.add(path); err != nil {
			return err
		}
		if len(paths) == 1 {
			continue
		}
		for _, f := range c.files[before:] {
			real, err := filepath.EvalSymlinks(osfile.Resolve(f.path))
			if err != nil {
				continue // it is inside the binary
			}
			if real, err = filepath.Abs(real); err == nil && seen[real] && c.twice == "" {
				c.twice = f.path
			}
			seen[real] = true
		}
	}
	return nil
}

// notes say how the files are other than a user may expect.
func (c *corpus) notes() (list []string) {
	switch {
	case c.leftOut == 1:
		list = append(list, fmt.Sprintf("%s is left out: with %s, only files of JSON lines are read", c.oneLeft, c.fieldName))
	case c.leftOut > 1:
		list = append(list, fmt.Sprintf("%d files are left out, the first is %s: with %s, only files of JSON lines are read", c.leftOut, c.oneLeft, c.fieldName))
	}
	if c.twice != "" {
		list = append(list, fmt.Sprintf("%s is read more than once: more than one path stands for it", c.twice))
	}
	if c.uncached != nil {
		list = append(list, fmt.Sprintf("the folder of cached files cannot be used, so the text is tokenized at each start: %v; %s names another folder", c.uncached, filecache.Variable))
	}
	return list
}

// add adds the files of a path.
func (c *corpus) add(path string) error {
	if path == BuiltinShakespeare {
		c.files = append(c.files, textFile{path, func(ctx context.Context) (*files.Stream, error) { return openBuiltin(ctx, "tinyshakespeare.txt.gz") }})
		return nil
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return c.addFile(path, st)
	}
	root, err := filepath.EvalSymlinks(osfile.Resolve(path)) // a walk follows no link
	if err != nil {
		return err
	}
	before := len(c.files)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		st, err := os.Stat(path) // of the file that a link leads to
		if err == nil && st.IsDir() {
			return nil
		}
		if c.field != "" && !isJSONLines(path) {
			c.leave(path)
			return nil
		}
		if err != nil {
			return err
		}
		return c.addFile(path, st)
	})
	if err == nil && len(c.files) == before {
		err = fmt.Errorf("%w: the folder %s has no file to read: %s", ErrFormat, path, c.wanted())
	}
	return err
}

// leave leaves a file of a folder out.
func (c *corpus) leave(path string) {
	if c.leftOut++; c.leftOut == 1 {
		c.oneLeft = path
	}
}

// wanted says which files a folder should have.
func (c *corpus) wanted() string {
	if c.field != "" {
		return c.fieldName + " is for files whose names end in .jsonl, .jsonl.gz or .jsonl.zst"
	}
	return "put text files in it"
}

// isJSONLines reports whether a file's name is that of JSON lines.
func isJSONLines(path string) bool {
	name := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(path), ".gz"), ".zst")
	return strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".ndjson")
}

func (c *corpus) addFile(path string, st fs.FileInfo) error {
	switch {
	case !st.Mode().IsRegular():
		return files.NotFile(path)
	case filepath.Base(path) == metaName:
		return refuseMeta(path)
	case strings.HasSuffix(path, binSuffix):
		return blame("path", fmt.Errorf("%w: %s holds token ids: %s", ErrSpec, path, c.insteadOfIDs()))
	case c.field == "" && isJSONLines(path):
		return fmt.Errorf("%w: %s is JSON lines: name the key of their text with %s, such as text", ErrSpec, path, c.fieldName)
	}
	c.size += st.Size()
	c.files = append(c.files, textFile{path, func(ctx context.Context) (*files.Stream, error) {
		f, size, err := files.OpenPlain(path)
		if err != nil {
			return nil, err
		}
		s, err := files.NewStream(ctx, path, &countingReader{f, &c.read}, size)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		s.Closer = f.Close
		return s, nil
	}})
	return nil
}

// insteadOfIDs says what to give in place of a file of token ids among texts.
func (c *corpus) insteadOfIDs() string {
	if c.learns {
		return "give the text that they were made from"
	}
	return "give that file alone, or a folder with " + trainBin
}

// countingReader counts the bytes that were read.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// cutter is [tokenizer.Tokenizer.Cut].
type cutter func(text []byte, ended bool) int

// textPiece is a part of a file: some text of one document, or whole JSON lines.
type textPiece struct {
	path string
	text []byte
	at   textPos // of the text in the file
	last bool    // the file ends with it
}

// each reads the corpus, works on its pieces in parallel, and collects the results
// in order. doing names the work for progress. A piece's text is valid until work
// returns.
func each[R any](ctx context.Context, c *corpus, doing string, cut cutter, work func(textPiece) (R, error), collect func(R) error) error {
	c.read.Store(0)
	return inParallel(ctx, func(yield func(textPiece) error) error {
		for _, f := range c.files {
			if err := c.pieces(ctx, f, cut, yield); err != nil {
				return err
			}
		}
		return nil
	}, func(p textPiece) (R, error) {
		r, err := work(p)
		c.texts.put(p.text)
		return r, err
	}, func(r R) error {
		c.report(doing)
		return collect(r)
	})
}

// report says how much of the corpus was read for a purpose.
func (c *corpus) report(doing string) {
	if c.progress != nil && c.size > 0 {
		c.progress(doing, min(1, float64(c.read.Load())/float64(c.size)))
	}
}

// pieces reads a file.
func (c *corpus) pieces(ctx context.Context, f textFile, cut cutter, yield func(textPiece) error) error {
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	if c.field != "" || c.byLine {
		cut = wholeLines
	}
	in := io.Reader(s)
	if c.field != "" {
		if in, err = withoutMark(s); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", f.path, err), s.Close())
		}
	}
	return errors.Join(eachPiece(in, f.path, cut, &c.texts, yield), s.Close())
}

// withoutMark skips a byte order mark, which is no JSON. In a text without a field it is a character.
func withoutMark(r io.Reader) (io.Reader, error) {
	const mark = "\ufeff"
	begin := make([]byte, len(mark))
	n, err := io.ReadFull(r, begin)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if string(begin) == mark {
		return r, nil
	}
	return io.MultiReader(bytes.NewReader(begin[:n]), r), nil
}

// linesBytes is the length of a piece of JSON lines, unless a line is longer.
const linesBytes = 256 << 10

// wholeLines is the cutter of JSON lines.
func wholeLines(text []byte, ended bool) int {
	if ended && len(text) <= linesBytes {
		return len(text)
	}
	if n := bytes.LastIndexByte(text[:min(len(text), linesBytes)], '\n') + 1; n > 0 {
		return n
	}
	n := bytes.IndexByte(text, '\n') + 1 // of a long line
	if n == 0 && ended {
		return len(text)
	}
	return n
}

// eachPiece reads what r reads from beginning to end, and yields it in pieces that
// cut finds. Each has memory of its own, from texts. An empty file has no piece.
func eachPiece(r io.Reader, path string, cut cutter, texts *recycled[byte], yield func(textPiece) error) error {
	at, open := start, false
	buf := make([]byte, 2*tokenizer.CutBytes)
	for have, ended := 0, false; !ended || have > 0; {
		if !ended {
			n, err := io.ReadFull(r, buf[have:])
			have += n
			if ended = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !ended {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		used := 0
		for used < have {
			n := cut(buf[used:have], ended)
			if n == 0 {
				break
			}
			text := append(texts.get(), buf[used:used+n]...)
			used += n
			open = !ended || used < have
			p := textPiece{path, text, at, !open}
			at = at.after(text)
			if err := yield(p); err != nil {
				return err
			}
		}
		if used == 0 && have == len(buf) {
			if len(buf) > files.MostRow {
				return fmt.Errorf("%w: %s:%d: the line has more than %d MiB: is it the right file?", ErrFormat, path, at.line, files.MostRow>>20)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		have = copy(buf, buf[used:have])
	}
	if open { // all was read before the end was known
		return yield(textPiece{path, nil, at, true})
	}
	return nil
}

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
	if c.chats != nil {
		messages, err := c.conversation(line)
		if err != nil {
			return "", err
		}
		x, err := c.chats.render(context.Background(), messages, false) // of one line, which has a budget
		return x.Text, err
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

// textPos is a position in a text: the line, and the column in characters, from 1.
type textPos struct{ line, column int }

// start is the position of a text's first character.
var start = textPos{1, 1}

// after is the position that text leads to from p.
func (p textPos) after(text []byte) textPos {
	if last := bytes.LastIndexByte(text, '\n'); last >= 0 {
		p.line, p.column, text = p.line+bytes.Count(text, []byte("\n")), 1, text[last+1:]
	}
	p.column += utf8.RuneCount(text)
	return p
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
