package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
)

func TestHostileFiles(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ","))
	}
	cases := []struct{ name, text, want string }{
		{"laughs", laughs, "more than 100,000 values with aliases expanded"},
		{"long", "data: [" + strings.Repeat("1,", maxNodes) + "1]\n", "more than 100,000 values, the limit for a config"},
		{"deep", "data: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nested more than 64 deep"},
		{"huge", strings.Repeat("# long\n", MaxFile/7+1), "more than 1.0 MiB"},
		{"latin-1", "name: x\ndata: \xe9t\xe9\n", "a.yaml:2: the file is not UTF-8"},
		{"zero byte", "name: x\n# \x00\ntrain: 1\n", "a.yaml:2: not YAML: control characters are not allowed"},
		{"tab in the first line", "\tname: x\n", "a.yaml:1: not YAML: a tab indents this line: use spaces"},
		{"tab", "name: x\ntrain:\n\tbatch: 1\n", "a.yaml:3: not YAML: a tab indents this line"},
		{"tab behind spaces", "name: x\ntrain:\n  \tbatch: 1\n  \tepochs: 2\n", "a.yaml:3: not YAML: a tab indents this line"},
		{"decimal comma", "name: x\ndata: digits\nmodel: {preset: mlp}\noptimizer: {name: adam, lr: 0,5}\n", "a.yaml:4: optimizer.5: a comma separates keys: write a decimal point, as in 0.5"},
		{"reserved character", "name: x\ntrain: {batch: @1}\n", "a.yaml:2: not YAML: found character that cannot start any token"},
		{"missing bracket in the first line", "model: {preset: mlp\n", "a.yaml:1: not YAML: did not find expected ',' or '}'"},
		{"missing bracket", "name: x\nmodel: {preset: mlp\ntrain: {epochs: 1}\n", "a.yaml:2: not YAML: did not find expected ',' or '}'"},
		{"missing bracket of a list", "name: x\n\nmodel: [\n  x: y\n", "a.yaml:3: not YAML: did not find expected ',' or ']'"},
		{"no key", "data: digits\nmodel:\n  preset: mlp\n bad\n", "a.yaml:4: not YAML: did not find expected key"},
		{"a list among keys", "name: x\ntrain:\n  epochs: 3\n  batch: 4\n  - x\n", "a.yaml:5: not YAML: did not find expected key"},
		{"a key in a list", "name: x\nmodel:\n  - dense: 3\n  - relu\n  x: 1\n", "a.yaml:5: not YAML: did not find expected '-' indicator"},
		{"unknown anchor", "# *n\nname: x\ntrain: {batch: *n}\nseed: *n\n", "a.yaml:3: not YAML: unknown anchor 'n' referenced"},
		{"unclosed quote", "name: 'it''s'\ndata: {path: \"d.csv, label: y}\nmodel: {preset: mlp}\n# 'a'\n\n", `a.yaml:2: not YAML: the quote that opens here is never closed`},
		{"unclosed quote in the last line", "name: x\ntrain: {batch: '1}", "a.yaml:2: not YAML: the quote"},
		{"unclosed quote in a long file", strings.Repeat("a: 'b'\n", 600) + "c: \"d\n" + strings.Repeat("a: 'b'\n", 600), "a.yaml:601: not YAML: the quote"},
	}
	for _, c := range cases {
		_, err := Parse("a.yaml", []byte(c.text), Overlay{})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %q", c.name, err, c.want)
		}
	}
}

func TestAliases(t *testing.T) {
	c := parse(t, `
data: {source: digits}
model:
  layers:
    - &block {type: residual, layers: [relu, {type: dense, units: 64}]}
    - *block
train: {epochs: &n 3, batch: *n}
`, Overlay{})
	if len(c.Model.Layers) != 2 || c.Model.Layers[1].Body[1].Keys.(*models.Dense).Units != 64 || c.Train.Batch != 3 {
		t.Errorf("%+v %+v", c.Model.Layers, c.Train)
	}
	roundTrip(t, c)
}
