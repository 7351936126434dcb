package berth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/svg/svgtest"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestLinksOfPages: every link from a page to a file, or to a heading, has its
// target. Links to other sites are not followed.
func TestLinksOfPages(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range pageLink.FindAllStringSubmatch(prose(t, page), -1) {
			file, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if filepath.IsAbs(file) || !filepath.IsLocal(target) {
				t.Errorf("%s links to %s, outside the repository", page, m[1])
			} else if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if heading != "" && !anchors(t, target)[heading] {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}

// pages lists the Markdown files of the repository.
func pages(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return codeBlock.ReplaceAllString(string(b), "")
}

// anchors are the names by which headings of a page are linked to: lower case,
// a hyphen for each space, and no punctuation.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, m := range pageHeading.FindAllStringSubmatch(prose(t, page), -1) {
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return names
}

// goFile is a Go file that a page names in code type, without placeholders.
var goFile = regexp.MustCompile("`([a-z0-9_./]+\\.go)`")

// TestFilesThatPagesName: Go files that pages name exist, at the path or, for a
// name alone, anywhere.
func TestFilesThatPagesName(t *testing.T) {
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		names[path], names[filepath.Base(path)] = true, true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		for _, m := range goFile.FindAllStringSubmatch(prose(t, page), -1) {
			if !names[m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

var (
	testCommand = regexp.MustCompile("go test (\\./\\S*) [^`\n]*-(run|bench) ([A-Za-z]\\w*|'\\^Benchmark[^']*')")
	testName    = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// TestTestsThatPagesName: tests and benchmarks that pages name, or tell readers
// to run, exist.
func TestTestsThatPagesName(t *testing.T) {
	below := map[string][]string{}
	in := func(folder string) []string {
		if _, read := below[folder]; !read {
			below[folder] = testsBelow(t, folder)
		}
		return below[folder]
	}
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testCommand.FindAllSubmatch(b, -1) {
			pattern := regexp.MustCompile(strings.Trim(string(m[3]), "'"))
			if !slices.ContainsFunc(in(string(m[1])), pattern.MatchString) {
				t.Errorf("%s: %s: no test there is called so", page, m[0])
			}
		}
		for _, m := range testName.FindAllSubmatch(b, -1) {
			if !slices.Contains(in("."), string(m[1])) {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
}

// testsBelow lists the tests, fuzz targets and benchmarks in a folder and the
// folders in it.
func testsBelow(t *testing.T, folder string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(strings.TrimSuffix(folder, "/..."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestArchitecturePage: docs/architecture.md says what each package is for.
func TestArchitecturePage(t *testing.T) {
	const page = "docs/architecture.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range importsOf(t) {
		if pkg != "" && !strings.HasPrefix(pkg, "cmd/trainer/internal/") && !strings.Contains(string(b), "`"+pkg+"`") {
			t.Errorf("%s does not say what package %s is for", page, pkg)
		}
	}
}

var drawnPackage = regexp.MustCompile(`font-family="ui-monospace[^>]*>([a-z/]+)<`)

// Drawings have the font of package svg on a white page, without a frame around all. Their texts are
// within them, readable, and not over each other. Those of run.svg have the fonts of a terminal, and are
// left out.
func TestDrawingsAreReadable(t *testing.T) {
	list, err := filepath.Glob("docs/*.svg")
	if err != nil || len(list) < 10 {
		t.Fatal(len(list), err)
	}
	font := regexp.MustCompile(`^<svg [^>]*font-family="[^"]+"`)
	page := regexp.MustCompile(`</title>\s*(<defs>.*</defs>\s*)?<rect width="100%" height="100%" fill="#ffffff"/>\s*<[^r]`)
	like := strings.Split(font.FindString((&svg.Picture{}).String()), `font-family=`)[1]
	for _, file := range list {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		terminal := file == filepath.Join("docs", "run.svg")
		if got := font.FindString(string(b)); !strings.HasSuffix(got, like) || !terminal && !page.Match(b) {
			t.Errorf("%s: its font is not that of package svg, or its page is not plain white: %s", file, got)
		}
		if terminal {
			continue
		}
		for _, fault := range svgtest.Faults(string(b)) {
			t.Errorf("%s: %s", file, fault)
		}
	}
}

// TestDrawnLayers: docs/architecture.svg draws packages in layers, the highest
// first, and no package imports one of a higher layer.
func TestDrawnLayers(t *testing.T) {
	b, err := os.ReadFile("docs/architecture.svg")
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]int{}
	for i, part := range strings.Split(string(b), `<g class="layer">`)[1:] {
		part, _, _ = strings.Cut(part, "</g>")
		for _, m := range drawnPackage.FindAllStringSubmatch(part, -1) {
			layers[m[1]] = i
		}
	}
	if len(layers) < 30 {
		t.Fatalf("only %d packages were found in the drawing", len(layers))
	}
	imports := importsOf(t)
	for pkg, layer := range layers {
		if _, there := imports[pkg]; !there {
			t.Errorf("the drawing has %q, which is no package", pkg)
		}
		for _, i := range imports[pkg] {
			if of, drawn := layers[i]; drawn && of < layer {
				t.Errorf("the drawing has %s below %s, which it imports", pkg, i)
			}
		}
	}
}
