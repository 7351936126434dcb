package configs

import (
	"fmt"
	"slices"
	"strings"
)

// referenceHead is the start of the reference page. The rest comes from the
// tables.
const referenceHead = `# Config reference

A config is one YAML file. ` + "`data` and `model`" + ` are required; every other key has a default. ` + "`trainer configs list`" + ` names the
configs inside the binary, and ` + "`trainer configs show NAME`" + ` prints one.

Each key can be set outside the file: by its flag, if the table names one; by ` + "`--set train.batch=64`" + ` (lists as
` + "`--set model.hidden=[64,32]`" + `); or by an environment variable, ` + "`BERTH_TRAIN_BATCH=64`" + `. A flag wins over ` + "`--set`, `--set`" + ` over the
environment, the environment over the file, the file over the default.

The computed numbers do not depend on keys marked *free*: a run can be resumed with other values of them.

This page is generated from the tables of package configs: ` + "`go test ./configs -run Reference -update`" + `.
`

// Reference gives the page of every key, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	rootSection.reference(&b, "", false)
	layerSection.reference(&b, "model.layers[]", false)
	if slices.ContainsFunc(lossSection.rows(), func(v variant) bool { return len(v.keys) > 0 }) {
		lossSection.reference(&b, "loss", false)
	}
	deviceSection.reference(&b, "devices.each[]", true)
	return b.String()
}

// reference writes a section's tables, then those of the sections in it.
func (s *section) reference(b *strings.Builder, path string, free bool) {
	title := path
	if path == "" {
		title = "Top level"
	}
	fmt.Fprintf(b, "\n## %s\n", title)
	if s.doc != "" {
		fmt.Fprintf(b, "\n%s\n", s.doc)
	}
	keys := s.keys
	if s.selector != nil {
		keys, _ = s.active(noChoice)
	}
	table(b, keys, path, free)
	for _, v := range s.rows() {
		v.reference(b, s.selector.name, path, free)
	}
	for _, k := range s.keys {
		if sub, ok := k.kind.(*section); ok {
			sub.reference(b, join(path, k.name), free || k.free)
		}
	}
}

func (v variant) reference(b *strings.Builder, selector, path string, free bool) {
	if v.name == "" {
		fmt.Fprintf(b, "\n### no %s\n", selector)
	} else {
		fmt.Fprintf(b, "\n### %s: %s\n", selector, v.name)
	}
	if v.doc != "" {
		fmt.Fprintf(b, "\n%s\n", v.doc)
	}
	if len(v.keys) > 0 {
		table(b, v.keys, path, free)
	}
}

// table writes a row for each key.
func table(b *strings.Builder, keys []*key, path string, free bool) {
	b.WriteString("\n| key | values | default | meaning |\n|---|---|---|---|\n")
	for _, k := range keys {
		expect, doc := k.kind.expect(), k.doc
		if sub, ok := k.kind.(*section); ok {
			expect, doc = "a section, below", strings.TrimSuffix(sub.doc, ".")
		}
		if k.flag != "" {
			doc += fmt.Sprintf("; flag `--%s`", k.flag)
		}
		if (free || k.free) && !k.inData {
			doc += "; *free*"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.name, expect, k.shownDefault(), doc)
	}
}

func (k *key) shownDefault() string {
	switch {
	case k.required:
		return "required"
	case k.def != "":
		return "`" + k.def + "`"
	}
	return ""
}
