package command

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/internal/testall"
)

const galleryPage = "../../../docs/gallery.md"

var (
	pageBlock   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	galleryRow  = regexp.MustCompile(`(?m)^\| \[([\w-]+)\]\(#`)
	commandWord = regexp.MustCompile(`"[^"]*"|\S+`)
	reachedPart = regexp.MustCompile(`(accuracy|r2) ([\d.]+)`)
)

// quickShown are the configs of the page that train whole in about a second; the others take a few steps.
var quickShown = []string{"flats.yaml", "churn.yaml", "digits", "digits-cnn"}

// TestGallery: what docs/gallery.md says can be typed, in its order, in a folder with nothing but the page's own files. Configs
// that train in seconds reach what the page says.
func TestGallery(t *testing.T) {
	testall.Long(t)
	page, err := os.ReadFile(galleryPage)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	churn, err := os.ReadFile(filepath.Join(root, "examples/table/churn.csv"))
	if err != nil {
		t.Fatal(err)
	}
	g := &gallery{T: t, root: root, folder: t.TempDir()}
	t.Chdir(g.folder)
	g.file("examples/table/churn.csv", churn)
	for _, m := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		switch kind, text := m[1], m[2]; kind {
		case "yaml":
			name, isNamed := strings.CutPrefix(strings.SplitN(text, "\n", 2)[0], "# ")
			if !isNamed {
				t.Errorf("a config without its name:\n%s", text)
			}
			g.file(name, []byte(text))
		case "sh":
			for line := range strings.Lines(text) {
				g.command(strings.Split(line, "  #")[0])
			}
		case "":
			g.compare(text)
		}
	}
	rows := galleryRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 8 || g.compared == 0 {
		t.Errorf("%d configs are in the table, and %d results are compared", len(rows), g.compared)
	}
	for _, row := range rows {
		if !slices.Contains(g.trained, row[1]) && !slices.Contains(g.trained, row[1]+".yaml") {
			t.Errorf("no command trains %s", row[1])
		}
	}
}

// gallery is the page as far as it was followed.
type gallery struct {
	*testing.T
	root, folder string
	trained      []string // the configs, in order
	out          string   // of the newest training
	compared     int
}

// file writes a file of the page.
func (g *gallery) file(name string, data []byte) {
	g.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		g.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		g.Fatal(err)
	}
}

// command runs a line of the page. A training that takes long takes two steps.
func (g *gallery) command(line string) {
	g.Helper()
	words := commandWord.FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.Trim(w, `"`)
	}
	switch {
	case len(words) == 0:
	case words[0] == "go":
		words[len(words)-1] = filepath.Join(g.folder, words[len(words)-1])
		c := exec.Command("go", append(words[1:], "-each", "40")...)
		c.Dir = g.root
		if out, err := c.CombinedOutput(); err != nil {
			g.Fatalf("%s: %v\n%s", line, err, out)
		}
	case words[0] == "trainer":
		args := words[1:]
		if args[0] == "train" {
			g.trained = append(g.trained, args[1])
			if !slices.Contains(quickShown, args[1]) || testall.Race {
				args = append(args, "--max-steps", "2")
			}
		}
		var out bytes.Buffer
		if code := run(g.Context(), &signals.Stop{}, args, &out, &out); code != cli.ExitOK {
			g.Fatalf("%s: exit code %d\n%s", line, code, out.String())
		}
		if args[0] == "train" {
			g.out = out.String()
		}
	default:
		g.Errorf("a command of another program: %s", line)
	}
}

// compare compares the last lines of a training that the page shows with those that were printed, where it was whole: within 3%,
// as other instruction sets give other numbers.
func (g *gallery) compare(shown string) {
	g.Helper()
	if !strings.Contains(shown, "best: ") || !slices.Contains(quickShown, g.trained[len(g.trained)-1]) || testall.Race {
		return
	}
	want, got := reachedPart.FindAllStringSubmatch(lineOf(shown, "best: "), -1), reachedPart.FindAllStringSubmatch(lineOf(g.out, "best: "), -1)
	if len(want) == 0 || len(got) != len(want) {
		g.Fatalf("the page shows\n%sand the training printed\n%s", shown, g.out)
	}
	for i := range want {
		was, err := strconv.ParseFloat(want[i][2], 64)
		now, err2 := strconv.ParseFloat(got[i][2], 64)
		if err != nil || err2 != nil || math.Abs(now-was) > 0.03*was {
			g.Errorf("the page shows %s, and the training reached %s", want[i][0], got[i][0])
		}
		g.compared++
	}
}

// lineOf is the first line of a text that begins so.
func lineOf(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}
