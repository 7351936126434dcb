package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// The log of a run comes by the stream: its end first, then what is added, and anew where another file takes its place.
func TestLog(t *testing.T) {
	folder := copied(t, "a")
	path := filepath.Join(folder, "a", rundir.LogName)
	write := func(flag int, text string) {
		t.Helper()
		f, err := os.OpenFile(path, flag|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	c := serve(t, Options{Folder: folder})
	id, v := c.id(t, "a"), c.table(t)
	log := c.s.tailOf(id)
	defer log.close()
	next := func() logEvent {
		t.Helper()
		e, ok := log.more()
		if !ok || e.Run != id {
			t.Errorf("%+v, %v", e, ok)
		}
		if again, ok := log.more(); ok {
			t.Errorf("nothing is new: %+v", again)
		}
		return e
	}
	if e := next(); e.Has || !e.Anew || e.Text != "" {
		t.Errorf("without a log: %+v", e)
	}
	write(0, "\x1b[31mone\x1b[0m\r\n<script>alert(1)</script>\x00\n")
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&log=%s", v.Instance, v.Version, id))
	var sent logEvent
	for s.next(&sent) != "log" {
	}
	for _, e := range []logEvent{sent, next()} {
		if !e.Has || !e.Anew || e.Cut || e.Text != "one\n<script>alert(1)</script>\n" {
			t.Errorf("the beginning: %+v", e)
		}
	}
	write(os.O_APPEND, "half")
	if e, ok := log.more(); ok {
		t.Errorf("a line that may go on: %+v", e)
	}
	write(os.O_APPEND, " a line\nthe end")
	for _, want := range []string{"half a line\n", "the end"} { // nothing was added to the last line for a second
		if e, ok := log.more(); !ok || e.Anew || e.Text != want {
			t.Errorf("what was added: %+v", e)
		}
	}
	sent = logEvent{}
	if s.next(&sent) != "log" || sent.Anew || !strings.HasPrefix(sent.Text, "half a line\n") {
		t.Errorf("what was added, by the stream: %+v", sent)
	}
	write(os.O_APPEND, "\n"+strings.Repeat(strings.Repeat("x", 99)+"\n", 2000))
	if e := next(); e.Anew || !e.Cut || len(e.Text) > mostLog || !strings.HasPrefix(e.Text, "xxx") || len(e.Text)%100 != 0 {
		t.Errorf("much at once: %d bytes, %+v", len(e.Text), e.Cut)
	}
	if err := os.Rename(path, filepath.Join(folder, "a", rundir.OlderLogName)); err != nil {
		t.Fatal(err)
	}
	write(0, "new\n")
	if e := next(); !e.Anew || e.Cut || !strings.HasSuffix(e.Text, "xxx\nnew\n") || len(e.Text) > mostLog || len(e.Text) < mostLog-200 {
		t.Errorf("the next file: %d bytes, %+v", len(e.Text), e.Cut)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if e := next(); e.Has || !e.Anew || e.Text != "" {
		t.Errorf("a link: %+v", e)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                       "a\tb\n",
		"\x1b]0;title\x07x\x1b[2K":     "x",
		"\x1b[38;5;196mred\x1b[m":      "red",
		"10%\r20%\r\n":                 "10%\n20%\n",
		"\xff\x00\u0085\u202ereversed": "\ufffdreversed",
		"\x1b":                         "",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
