package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// mostBytes is how large the page may be in all.
const mostBytes = 300 << 10

// The page is small, and uPlot is as its authors have published it.
func TestPageFiles(t *testing.T) {
	readme, err := embedded.ReadFile("page/uplot/README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([0-9a-f]{64})  (\S+)$`).FindAllStringSubmatch(string(readme), -1) {
		listed[m[2]] = m[1]
	}
	total := 0
	err = fs.WalkDir(embedded, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := embedded.ReadFile(name)
		total += len(text)
		if base, ok := strings.CutPrefix(name, "page/uplot/"); ok && base != "README.md" {
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != listed[base] {
				t.Errorf("%s is not the file of the README", name)
			}
		}
		return err
	})
	if err != nil || total > mostBytes {
		t.Errorf("the page has %d bytes, more than %d: %v", total, mostBytes, err)
	}
}

// Nothing in the page's own scripts makes HTML of a text, runs one, or loads from elsewhere.
func TestPageMakesNoHTML(t *testing.T) {
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|DOMParser|\beval\(|new Function|createContextualFragment|setHTML|javascript:|https?://`)
	for name, f := range files() {
		if strings.HasPrefix(name, "/uplot/") || strings.HasSuffix(name, ".svg") {
			continue
		}
		if found := bad.FindString(string(f.text)); found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
	page := string(files()["/"].text)
	if regexp.MustCompile(`(?i)<script>|<style|\son\w+=|\sstyle=`).MatchString(page) {
		t.Error("the page has a script or style that its policy forbids")
	}
}
