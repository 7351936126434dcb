package command

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
)

const (
	readme      = "../../../README.md"
	commandPage = "../../../docs/cli.md"
	devicePage  = "../../../docs/devices.md"
	reportPage  = "../../../docs/report.md"
)

// TestCommandPage: docs/cli.md names every command.
func TestCommandPage(t *testing.T) {
	page, err := os.ReadFile(commandPage)
	if err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "trainer ")
		if c.IsAvailableCommand() && !c.HasSubCommands() && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s does not name the command %s", commandPage, name)
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	for _, c := range newRoot(&signals.Stop{}).Commands() {
		check(c)
	}
}

// TestReportPage: docs/report.md describes every field of report.json, of
// metrics.jsonl, and of the answers of eval and predict.
func TestReportPage(t *testing.T) {
	b, err := os.ReadFile(reportPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	names := jsonNames(reflect.TypeFor[berth.Report](), "")
	for _, answer := range []reflect.Type{reflect.TypeFor[berth.Evaluation](), reflect.TypeFor[berth.Prediction]()} {
		names = append(names, jsonNames(answer, "")...)
	}
	for _, name := range append(names, metricNames(t)...) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s does not describe the field %s", reportPage, name)
		}
	}
}

// jsonNames lists the fields that a type has in JSON, as the page writes them:
// ledger.by_reason, devices[].id.
func jsonNames(t reflect.Type, at string) (names []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonNames(t.Elem(), at)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return jsonNames(t.Elem(), at+"[]")
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if at != "" {
				name = at + "." + name
			}
			names = append(names, jsonNames(f.Type, name)...)
		}
		return names
	}
	return []string{at}
}

// metricNames lists the fields of the lines of metrics.jsonl, from a short run.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if code := run(t.Context(), &signals.Stop{}, []string{"train", "digits", "--set", "train.epochs=1", "--quiet", "--run", dir}, io.Discard, os.Stderr); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			names = append(names, name)
		}
	}
	return names
}

// A shown command is a block of a page with one command, and its whole output, the
// last lines of it, or some lines of it.
var (
	shownCommand = regexp.MustCompile("(?m)^```\n\\$ trainer ([^\n|]*?)( \\| (?:tail -|grep -A)\\d+[^\n]*)?\n([^`$]*)^```$")
	shownConfig  = regexp.MustCompile("(?ms)^```yaml\n(# (\\w+\\.yaml)\n.*?)^```$")
)

// TestShownCommands: commands that pages show with their output print it. They run in a
// folder of their own, which gets what they write.
func TestShownCommands(t *testing.T) {
	pages := map[string][]byte{}
	for _, page := range []string{readme, devicePage} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = b
	}
	t.Chdir(t.TempDir())
	shown := 0
	for page, b := range pages {
		for _, m := range shownConfig.FindAllSubmatch(b, -1) {
			if err := os.WriteFile(string(m[2]), m[1], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range shownCommand.FindAllStringSubmatch(string(b), -1) {
			var out bytes.Buffer
			run(t.Context(), &signals.Stop{}, strings.Fields(m[1]), &out, &out)
			got := out.String()
			want, same := m[3], false
			switch {
			case m[2] == "":
				same = got == want
			case strings.Contains(m[2], "tail"):
				same = strings.HasSuffix(got, "\n"+want)
			default:
				same = strings.Contains(got, "\n"+want)
			}
			if !same {
				t.Errorf("%s shows of trainer %s\n%swhich prints\n%s", page, m[1], want, got)
			}
			shown++
		}
	}
	if shown < 3 {
		t.Errorf("only %d commands were found", shown)
	}
}
