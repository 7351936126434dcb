package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

func init() { terminalText = textOnTerminal }

func textOnTerminal(t *testing.T, args ...string) string {
	t.Helper()
	return onTerminal(t, func(terminal *os.File) {
		var errs bytes.Buffer
		if code := run(t.Context(), &signals.Stop{}, args, terminal, &errs); code != cli.ExitOK {
			t.Fatalf("trainer %q: exit code %d: %s", args, code, errs.String())
		}
	})
}

// onTerminal is what print prints to a terminal.
func onTerminal(t *testing.T, print func(terminal *os.File)) string {
	t.Helper()
	reader, terminal := openTerminal(t)
	text := make(chan string, 1)
	go func() {
		read, _ := io.ReadAll(reader) // it ends with EIO once the terminal is closed
		text <- string(read)
	}()
	print(terminal)
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	return <-text
}

// TestErrorsFit: an error and a note are broken between words on a terminal, and stay one
// line in a pipe.
func TestErrorsFit(t *testing.T) {
	dir := t.TempDir()
	commandText(t, "train", "digits", "--run", dir, "--max-steps", "100", "--quiet")
	for _, args := range [][]string{
		{"train", "nothing.yaml"},
		{"train", "digits", "--set", "optimizer.lr=abc"},
		{"train", "digits", "--set", "train.stepz=3"},
		{"plan", "digits", "--devices", "cpu:8", "--set", "partition.replicas=4"},
		{"checkpoints", "diff", dir, "1"},
		{"eval", dir, "--best", "--last", "--checkpoint", "2"},
		{"runs", "show", "nothing"},
		{"predict", dir, "--set", "data.columns={a: ignore}"},
	} {
		var piped bytes.Buffer
		if code := run(t.Context(), &signals.Stop{}, args, io.Discard, &piped); code == cli.ExitOK || strings.Count(piped.String(), "\n") != 1 {
			t.Errorf("trainer %q in a pipe: exit code %d, %q", args, code, piped.String())
		}
		shown := onTerminal(t, func(terminal *os.File) { run(t.Context(), &signals.Stop{}, args, io.Discard, terminal) })
		fits(t, args, shown)
		if got, want := strings.Join(strings.Fields(shown), " "), strings.TrimSpace(piped.String()); got != want {
			t.Errorf("trainer %q: %q on a terminal, %q in a pipe", args, got, want)
		}
	}
}

// TestProseBehindBar: a message in place of a bar is broken as well, and the bar is not.
func TestProseBehindBar(t *testing.T) {
	bar, message := "\rstep 1/9 "+strings.Repeat("=", 80), strings.Repeat("so many words ", 8)
	shown := onTerminal(t, func(terminal *os.File) {
		p := console.NewProse(terminal)
		fmt.Fprint(p, bar)
		fmt.Fprintf(p, "\r\x1b[K%s\n", message)
	})
	if want := bar + "\r\x1b[K" + strings.Repeat("so many words ", 5) + "so many\r\nwords so many words so many words\r\n"; strings.ReplaceAll(shown, " \r\n", "\r\n") != want {
		t.Errorf("%q, want %q", shown, want)
	}
}

// openTerminal opens a terminal, and a reader of its screen.
func openTerminal(t *testing.T) (reader, terminal *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	if err := unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	// After Ctrl-C the kernel throws away what is on its way to the screen. That can be what a quick program
	// already says of it.
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	return reader, terminal
}
