package command

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// A person answers the questions of new on a terminal: by a word, by Enter, wrong and then right; or ends
// them by Ctrl-C or Ctrl-D, after which there is no config.
func TestNewAsks(t *testing.T) {
	const (
		label = "Which column is to be predicted? [grade] "
		kind  = "Predict grade as one of 3 classes, or as a number (classes, number)? [classes] "
		share = "(0: none)? [0.15] "
		chats = "such as runs/NAME, or any other? "
	)
	type turn struct{ after, typed string }
	for name, c := range map[string]struct {
		file  string // "": t.csv
		turns []turn
		code  int
		says  []string
		yaml  []string
	}{
		"enter": {turns: []turn{{label, "\n"}, {kind, "\n"}, {share, "\n"}}, yaml: []string{"label: grade\n", "test: 0.15"}},
		"words": {turns: []turn{{label, "\"a\\nb\"\n"}, {share, "0\n"}}, yaml: []string{"label: \"a\\nb\"\n  task: regression", "split: {val: 0.15} "}},
		"again": {
			turns: []turn{{label, "height\n"}, {label, "same\n"}, {label, " grade \n"}, {kind, "both\n"}, {kind, "number\n"}, {share, "2\n"}, {share, "0.2\n"}},
			says:  []string{"there is no column height: give one of the names above", "same has the same value in all rows", "both: expected classes or number", "2: expected a number from 0 to 0.5"},
			yaml:  []string{"label: grade\n  task: regression", "test: 0.2}"},
		},
		"example": {
			file: "t.jsonl", turns: []turn{{chats, "\n"}, {chats, "none\n"}, {chats, "\x04"}}, code: cli.ExitUsage,
			says: []string{"give the path of a folder, such as one that trainer import has made", "none: expected a folder, such as one that trainer import has made"},
		},
		"Ctrl-C": {turns: []turn{{label, "\n"}, {kind, "\x03"}}, code: cli.ExitFailure, says: []string{"trainer: interrupted"}},
		"Ctrl-D": {turns: []turn{{label, "\n"}, {kind, "\x04"}}, code: cli.ExitUsage, says: []string{"the answers ended, and nothing was written: give --yes for the defaults"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var table strings.Builder
			table.WriteString("\"a\nb\",same,grade\n")
			for i := range 40 {
				table.WriteString(strings.Join([]string{string('0'+rune(i/10)) + "." + string('0'+rune(i%10)), "1", string('1' + rune(i%3))}, ",") + "\n")
			}
			if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte(table.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "t.jsonl"), []byte(`{"messages": [{"role": "user", "content": "x"}]}`), 0o600); err != nil {
				t.Fatal(err)
			}
			screen, terminal := openTerminal(t)
			ctx := t.Context()
			cmd := exec.CommandContext(ctx, "trainer", "new", cmp.Or(c.file, "t.csv"))
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, terminal, terminal, terminal
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			_ = terminal.Close() // the screen ends with the command
			turns, text, seen := c.turns, bytes.Buffer{}, 0
			if err := screen.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			for {
				piece := make([]byte, 4096)
				n, err := screen.Read(piece)
				text.Write(piece[:n])
				if len(turns) > 0 && strings.HasSuffix(text.String()[seen:], turns[0].after) {
					seen = text.Len()
					if _, err := screen.WriteString(turns[0].typed); err != nil {
						t.Fatal(err)
					}
					turns = turns[1:]
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("no end; still to be asked: %q\n%s", turns, &text)
				}
				if err != nil { // EIO
					break
				}
			}
			err := cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || len(turns) > 0 {
				t.Fatalf("exit code %d (%v), want %d; not asked: %q\n%s", code, err, c.code, turns, &text)
			}
			unwrapped := strings.Join(strings.Fields(text.String()), " ")
			for _, want := range c.says {
				if !strings.Contains(unwrapped, want) {
					t.Errorf("the screen lacks %q:\n%s", want, &text)
				}
			}
			yaml, err := os.ReadFile(filepath.Join(dir, "t.yaml"))
			if c.yaml == nil && !errors.Is(err, fs.ErrNotExist) || c.yaml != nil && err != nil {
				t.Fatalf("the config: %v\n%s", err, yaml)
			}
			for _, want := range c.yaml {
				if !strings.Contains(string(yaml), want) {
					t.Errorf("the config lacks %q:\n%s", want, yaml)
				}
			}
		})
	}
}
