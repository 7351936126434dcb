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
	tablesEnd   = "<!-- end of tables -->"
)

// write puts the results into a folder: performance.json, performance.svg, and
// the tables into performance.md.
func (r report) write(folder string) error {
	page := filepath.Join(folder, "performance.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	var tables strings.Builder
	if err := r.markdown(&tables); err != nil {
		return err
	}
	text, err = between(text, tables.String())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	results, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "performance.json"), append(results, '\n'), 0o644),
		os.WriteFile(page, text, 0o644),
		r.chart(filepath.Join(folder, "performance.svg")),
	)
}

// between replaces the text between the marks.
func between(text []byte, tables string) ([]byte, error) {
	before, rest, begins := strings.Cut(string(text), tablesBegin+"\n")
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return nil, fmt.Errorf("the lines %q and %q are missing: put them where the tables go", tablesBegin, tablesEnd)
	}
	return []byte(before + tablesBegin + "\n" + tables + tablesEnd + after), nil
}
