package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

func init() { terminalText = textOnTerminal }

func textOnTerminal(t *testing.T, args ...string) string {
	t.Helper()
	reader, terminal := openTerminal(t)
	text := make(chan string, 1)
	go func() {
		read, _ := io.ReadAll(reader) // it ends with EIO once the terminal is closed
		text <- string(read)
	}()
	var errs bytes.Buffer
	code := run(t.Context(), &signals.Stop{}, args, terminal, &errs)
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitOK {
		t.Fatalf("trainer %q: exit code %d: %s", args, code, errs.String())
	}
	return <-text
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
	return reader, terminal
}
