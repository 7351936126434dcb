package ui

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// mostLog is how many bytes of a log are sent at once: of a longer one, the end.
const mostLog = 64 << 10

// logEvent is what a log has got.
type logEvent struct {
	Run  string `json:"run"`
	Text string `json:"text"`          // whole lines, but for one at which nothing was added for a second
	Anew bool   `json:"anew"`          // what was sent before goes: the log begins here
	Cut  bool   `json:"cut,omitempty"` // what came before this text is left out
	Has  bool   `json:"has"`           // there is a log
}

// tail follows the log of a run: that of a job, which is in its run folder. A nil tail follows none.
type tail struct {
	run   string
	board *board
	tick  *time.Ticker

	begun bool
	has   bool
	file  os.FileInfo // that was read; nil: none
	at    int64       // bytes of it that were sent, or passed over
	size  int64       // as it was at the last look
}

// tailOf is a tail of the log of the run with an ID; nil for "".
func (s *Server) tailOf(id string) *tail {
	if id == "" {
		return nil
	}
	return &tail{run: id, board: s.board, tick: time.NewTicker(lookEvery)}
}

// next is when the log is to be looked at.
func (t *tail) next() <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.tick.C
}

func (t *tail) close() {
	if t != nil {
		t.tick.Stop()
	}
}

// sendLog sends what is new in a log.
func (s *Server) sendLog(r *http.Request, t *tail, out *stream) {
	if t == nil || s.board.hanging([]string{t.run}) != nil {
		return
	}
	ctx, cancel := s.bounded(r)
	defer cancel()
	type got struct {
		tail
		event logEvent
		ok    bool
	}
	before := *t
	now, err := apart(ctx, s, []string{t.run}, func() (got, error) {
		g := got{tail: before}
		g.event, g.ok = g.more()
		return g, nil
	})
	if err != nil {
		return
	}
	if *t = now.tail; now.ok {
		out.send("log", now.event)
	}
}

// more is what the log has got since the last call. ok is false where that is nothing. The first call always has something: that
// the log begins.
func (t *tail) more() (e logEvent, ok bool) {
	of := t.board.run(t.run)
	if of == nil { // it was deleted: what was sent stays
		return e, false
	}
	e.Run = t.run
	f, err := rundir.OpenPlain(filepath.Join(of.dir, rundir.LogName))
	if err != nil { // there is none, or it is a link
		e.Anew, ok = t.has || !t.begun, t.has || !t.begun
		*t = tail{run: t.run, board: t.board, tick: t.tick, begun: true}
		return e, ok
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return e, false
	}
	if !t.has || !os.SameFile(t.file, st) || st.Size() < t.at {
		e.Anew, t.at, t.size = true, 0, -1
	}
	before := t.size
	t.begun, t.has, t.file, t.size, e.Has = true, true, st, st.Size(), true
	if st.Size()-t.at > mostLog { // its end
		t.at, e.Cut = st.Size()-mostLog, true
	}
	text := make([]byte, st.Size()-t.at)
	n, err := f.ReadAt(text, t.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return e, e.Anew
	}
	whole := string(text[:n])
	if i := strings.LastIndexByte(whole, '\n'); before != st.Size() && (i >= 0 || n < mostLog) { // the last line may go on
		whole = whole[:i+1]
	}
	t.at += int64(len(whole))
	if i := strings.IndexByte(whole, '\n'); e.Cut && i >= 0 {
		whole = whole[i+1:]
	}
	if e.Text = plain(whole); e.Anew && !e.Cut {
		e.Text = plain(t.older(of.dir, mostLog-len(whole))) + e.Text
	}
	return e, e.Anew || e.Text != ""
}

// older is the end of the log before this one: at most so many bytes of whole lines.
func (t *tail) older(dir string, most int) string {
	f, err := rundir.OpenPlain(filepath.Join(dir, rundir.OlderLogName))
	if err != nil || most <= 0 {
		return ""
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-int64(most))
	text := make([]byte, st.Size()-from)
	n, err := f.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	whole := string(text[:n])
	if i := strings.IndexByte(whole, '\n'); from > 0 {
		whole = whole[i+1:]
	}
	return whole
}

// sequences are what a terminal takes as commands.
var sequences = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -~])`)

// plain is a text without what a terminal takes as commands.
func plain(text string) string {
	text = sequences.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // also those that turn the order of text round
			return -1
		}
		return r
	}, text)
}
