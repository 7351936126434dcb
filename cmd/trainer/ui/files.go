package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed page
var embedded embed.FS

// files are the files of the page by the path of their URL.
var files = sync.OnceValue(pageFiles)

// kinds are the types of the files that browsers get.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func pageFiles() map[string]file {
	list := map[string]file{}
	err := fs.WalkDir(embedded, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		text, err := embedded.ReadFile(name)
		sum := sha256.Sum256(text)
		url := strings.TrimPrefix(name, "page")
		if url == "/index.html" {
			url = "/"
		}
		list[url] = file{kinds[path.Ext(name)], text, `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return list
}
