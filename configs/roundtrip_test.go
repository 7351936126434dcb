package configs

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// drawSection draws a mapping of the section's keys with valid values. Keys with
// a default are left out at random.
func drawSection(t *rapid.T, s *section, path string, depth int) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	choice := ""
	if s.selector != nil {
		i := rapid.IntRange(0, len(s.rows())-1).Draw(t, path+" variant")
		if choice = s.rows()[i].name; (choice == "residual" || choice == "concat") && depth > 1 {
			choice = "relu"
		}
	}
	keys, _ := s.active(choice)
	for _, k := range keys {
		at := join(path, k.name)
		switch {
		case k == s.selector && choice != "":
			out.Content = append(out.Content, str(k.name), str(choice))
		case k == s.selector:
		case k.required || rapid.Bool().Draw(t, at+"?"):
			out.Content = append(out.Content, str(k.name), drawValue(t, k.kind, at, depth))
		}
	}
	return out
}

func drawValue(t *rapid.T, k kind, at string, depth int) *yaml.Node {
	switch k := k.(type) {
	case *section:
		return drawSection(t, k, at, depth)
	case whole:
		return plain(fmt.Sprint(rapid.IntRange(k.min, min(k.max, k.min+3)).Draw(t, at)))
	case seed:
		return plain(fmt.Sprint(rapid.Uint64().Draw(t, at)))
	case real:
		return float(drawReal(t, k, at))
	case pair:
		return flow(float(drawReal(t, k.each, at)), float(drawReal(t, k.each, at)))
	case ints:
		return drawList(t, at, func() *yaml.Node { return drawValue(t, k.each, at, depth) })
	case texts:
		return drawList(t, at, func() *yaml.Node { return drawValue(t, k.each, at, depth) })
	case boolean:
		return plain(fmt.Sprint(rapid.Bool().Draw(t, at)))
	case order:
		return drawValue(t, k.words, at, depth)
	case lossKind:
		return drawValue(t, enum(lossSection.choices()), at, depth)
	case modes:
		if rapid.Bool().Draw(t, at+" several") {
			return str(strings.Join(rapid.Permutation(k.more).Draw(t, at)[:2], ","))
		}
		return drawValue(t, k.one, at, depth)
	case choice:
		return drawValue(t, k.words(), at, depth)
	case enum:
		return str(rapid.SampledFrom(k).Draw(t, at))
	case text:
		return str(drawText(t, k, at))
	case paths:
		item := func() *yaml.Node { return str(drawText(t, k.each, at)) }
		if rapid.Bool().Draw(t, at+" list") {
			return drawList(t, at, item)
		}
		return item()
	case size:
		return plain(fmt.Sprint(rapid.Int64Range(k.least, 1<<40).Draw(t, at)))
	case memory:
		if rapid.Bool().Draw(t, at+" percentage") {
			return plain(fmt.Sprintf("%v%%", rapid.SampledFrom([]float64{100, 50, 0.5, 33.25}).Draw(t, at)))
		}
		return plain(fmt.Sprint(rapid.Int64Range(LeastMemory, 1<<40).Draw(t, at)))
	case duration:
		return plain(rapid.SampledFrom([]string{"0", "1s", "90s", "5m", "1h", "2h30m", "1h0m5s", "1.5s"}).Draw(t, at))
	case patience:
		return plain(rapid.SampledFrom([]string{"1s", "2s", "1m30s", "5m"}).Draw(t, at))
	case pauses:
		return plain(rapid.SampledFrom([]string{"0", "10ms", "2s", "1m30s"}).Draw(t, at))
	case saveInterval:
		return plain(rapid.SampledFrom([]string{"0", "7", "1s", "10m", "1h0m5s"}).Draw(t, at))
	case orNumber:
		return plain(rapid.SampledFrom([]string{k.word, "1", "500"}).Draw(t, at))
	case metricName:
		return plain(rapid.SampledFrom([]string{"val_loss", "val_accuracy", "val_f1", "val_r2", "val_top_3"}).Draw(t, at))
	case metricNames:
		if rapid.Bool().Draw(t, at+" list") {
			return drawList(t, at, func() *yaml.Node {
				return plain(rapid.SampledFrom([]string{"f1", "auc", "mae", "f1_class_2"}).Draw(t, at))
			})
		}
		return defaultNode(rapid.SampledFrom([]string{"auto", "all", "[]"}).Draw(t, at))
	case staging:
		return plain(rapid.SampledFrom([]string{"auto", "whole", "1MiB", "3000001"}).Draw(t, at))
	case buckets:
		return defaultNode(rapid.SampledFrom([]string{"powers", "[8, 32, 33]", "[64]", "[9, 3]"}).Draw(t, at))
	case augments:
		return defaultNode(rapid.SampledFrom([]string{"[flip]", "[{crop: 4}, flip, {rotate: 12.5}]", "[{erase: 0.25}]", "[flip, {mixup: 0.2}]"}).Draw(t, at))
	case sides:
		return defaultNode(rapid.SampledFrom([]string{"[1, 1]", "[64, 48]", "[4096, 224]"}).Draw(t, at))
	case labels:
		if rapid.Bool().Draw(t, at+" list") {
			return strs([]string{"price", "rent"})
		}
		return str(drawText(t, column, at))
	case wordOr:
		return plain(rapid.SampledFrom([]string{"0", "1", k.word}).Draw(t, at))
	case inverted:
		return drawValue(t, k.boolean, at, depth)
	case cut:
		return drawStages(t, at)
	case pins:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for i := range rapid.IntRange(0, 2).Draw(t, at) {
			out.Content = append(out.Content, str(fmt.Sprint("block", i)), str(fmt.Sprint("cpu:", i)))
		}
		return out
	case columnList:
		out := &yaml.Node{Kind: yaml.MappingNode}
		for i := range rapid.IntRange(0, 2).Draw(t, at) {
			c := Column{Kind: rapid.SampledFrom(append(columnKind, "")).Draw(t, at+" kind"), Missing: rapid.SampledFrom(columnMissing).Draw(t, at+" missing"), Top: i, Order: columnOrder[i]}
			out.Content = append(out.Content, str([]string{"*", "1"}[i]), c.encode())
		}
		return out
	case splitKind:
		if rapid.Bool().Draw(t, at+" number") {
			return drawValue(t, k.number, at, depth)
		}
		d := Data{Division: rapid.SampledFrom([]*Division{
			{Val: 0.25}, {Val: 0.1, Test: 0.1, Stratify: true}, {Test: 0.5}, {Folds: 5, Fold: 2, Test: 0.1},
			{Val: 0.1, By: "who"}, {Val: 0.1, Test: 0.2, Latest: "-2"}, {Folds: 3, Fold: 3, By: "1"}, {ValPath: "a b.csv", TestPath: "1"},
		}).Draw(t, at)}
		return k.encode(&d, nil)
	case fieldWord:
		return str(drawText(t, text{pattern: regexp.MustCompile(`^\S*$`)}, at))
	case chosenPlan:
		return chosenPlan{}.encode(&[]*ChosenPlan{{[]string{"cpu:0 avx512 1"}, [][]string{{"a", "b"}}, []string{"cpu:0"}, "1f1b", rapid.IntRange(1, 3).Draw(t, at)}}[0], nil)
	case deviceList:
		return drawList(t, at, func() *yaml.Node { return drawSection(t, deviceSection, at, depth) })
	case layerList:
		return drawList(t, at, func() *yaml.Node { return drawSection(t, layerSection, at, depth+1) })
	}
	t.Fatalf("no way to draw a %T", k)
	return nil
}

func drawList(t *rapid.T, at string, item func() *yaml.Node) *yaml.Node {
	out := flow()
	for range rapid.IntRange(1, 3).Draw(t, at+" length") {
		out.Content = append(out.Content, item())
	}
	return out
}

func drawReal(t *rapid.T, r real, at string) float64 {
	v := rapid.Float64Range(r.min, math.Min(r.max, 1e9)).Draw(t, at)
	if r.over && v == r.min || r.under && v == r.max {
		return r.min/2 + math.Min(r.max, 1)/2
	}
	return v
}

// drawText draws words that YAML could read as another type.
func drawText(t *rapid.T, k text, at string) string {
	words := []string{"true", "1", "-1", "null", "a b", "x: y", "# no", "~", "cpu:2", "*", "é", ";", "\t", "layers.0", "line\nline", "[", "0x10", "1e3", ""}
	return rapid.SampledFrom(words).Filter(func(w string) bool {
		return k.pattern == nil || k.pattern.MatchString(w)
	}).Draw(t, at)
}

func drawStages(t *rapid.T, at string) *yaml.Node {
	switch rapid.IntRange(0, 2).Draw(t, at) {
	case 0:
		return plain("auto")
	case 1:
		return plain("2")
	}
	return flow(strs([]string{"embed", "1"}), strs([]string{"true"}))
}

// TestRoundTrip: a config drawn from the tables is either refused by a rule
// over several keys, with a position and a key, or comes back from YAML equal.
func TestRoundTrip(t *testing.T) {
	drawn, good := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		text, err := yaml.Marshal(drawSection(t, rootSection, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse("drawn.yaml", text, Overlay{})
		if err == nil {
			good++
			roundTrip(t, c)
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Key == "" || e.Pos.File != "drawn.yaml" {
			t.Fatalf("%v\n%s", err, text)
		}
	})
	if drawn >= 100 && good < 5 { // -short draws too few to tell
		t.Errorf("only %d of %d drawn configs were valid", good, drawn)
	}
}

// FuzzParse: no file and no override makes Parse panic or hang. A config that it
// accepts comes back from YAML equal.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		text, err := Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "train.batch=64")
	}
	for _, text := range []string{
		"", "---\n---\n", "a: &a [*a]", "? [x]\n: y", "data: {<<: {source: digits}}", "devices: cpu:2\ndata: digits", "data: digits\nmodel: {preset: mlp}\ndevices: [cpu, {use: cpu, memory: 1MiB}]",
		"data: {source: digits}\nmodel: {layers: [relu, {type: residual, layers: [flatten]}]}\npartition: {stages: [[a]]}",
		"data: {source: csv, path: x, label: 3}\nmodel: {preset: mlp, hidden: []}\ncheckpoint: {keep: {last: 1}}\ndevices: {memory: 1.5GiB}",
		"!!binary aGk=: 1", "data: !!set {source}\nmodel: !x {preset: mlp}", "\xff\xfe", "\x00", "a: 1e999999", "seed: 0b1",
	} {
		f.Add([]byte(text), "devices={use: 3}")
		f.Add([]byte(text), "model.layers=[relu]")
	}
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		c, err := Parse("fuzz.yaml", text, Overlay{Set: []string{set}})
		if err == nil {
			roundTrip(t, c)
			return
		}
		if !errors.Is(err, ErrInvalid) {
			t.Fatalf("%v is not ErrInvalid", err)
		}
	})
}

// withoutPos gives the config with every position cleared, so that two can be
// compared.
func withoutPos(c *Config) *Config {
	out := *c
	out.Model.Layers = append([]Layer(nil), c.Model.Layers...)
	out.where, out.Notes, out.written = nil, nil, nil
	clearPos(reflect.ValueOf(&out).Elem())
	return &out
}

func clearPos(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Pos]() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			clearPos(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			clearPos(v.Index(i))
		}
	}
}

// roundTrip checks that YAML and Parse are each other's inverse on c.
func roundTrip(t interface{ Fatalf(string, ...any) }, c *Config) {
	if err := c.Check(); err != nil {
		t.Fatalf("a config that was read is refused: %v", err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatalf("YAML: %v", err)
	}
	back, err := Parse("other.yaml", text, Overlay{})
	if err != nil {
		t.Fatalf("the resolved config is refused: %v\n%s", err, text)
	}
	if a, b := withoutPos(c), withoutPos(back); !reflect.DeepEqual(a, b) {
		t.Fatalf("came back different:\n%+v\n%+v\n%s", a, b, text)
	}
	again, err := back.YAML()
	if err != nil || string(again) != string(text) {
		t.Fatalf("written differently the second time: %v\n%s\n%s", err, text, again)
	}
}
