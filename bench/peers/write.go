package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The tables of performance.md stand between these lines.
const (
	tablesBegin = "<!-- tables: written by bench/peers -->"
	opsBegin    = "<!-- tables: written by bench/peers -ops -->" // of opbyop.md
	serveBegin  = "<!-- serving: written by bench/peers -own -->"
	spillBegin  = "<!-- little memory: written by bench/peers -own -->"
	tablesEnd   = "<!-- end of tables -->"
)

// write puts the results into a folder: performance.json, performance.svg, and
// the tables into performance.md.
func (r report) write(folder string) error {
	page := filepath.Join(folder, "performance.md")
	var tables strings.Builder
	if err := r.markdown(&tables); err != nil {
		return err
	}
	if err := replaceIn(page, tablesBegin, tables.String()); err != nil {
		return err
	}
	results, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "performance.json"), append(results, '\n'), 0o644),
		r.chart(filepath.Join(folder, "performance.svg")),
	)
}

// replaceIn puts tables between the marks of a page.
func replaceIn(page, begin, tables string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), begin+"\n")
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: the lines %q and %q are missing: put them where the tables go", page, begin, tablesEnd)
	}
	return os.WriteFile(page, []byte(before+begin+"\n"+tables+tablesEnd+after), 0o644)
}
