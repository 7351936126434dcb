package configs

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// TestIdentity: keys that decide the numbers change it, free keys do not.
func TestIdentity(t *testing.T) {
	identity := func(set ...string) []byte {
		id, err := parse(t, small, Overlay{Set: set}).Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	base := identity()
	for _, free := range []string{"name=other", "devices.use=cpu:3", "devices.threads=1", "devices.memory=1GiB", "devices.each=[cpu, cpu]", "devices.host_memory=1GiB", "partition.stages=2",
		"partition.schedule=gpipe", "checkpoint.every=5", "checkpoint.keep.last=9", "train.log_every=7"} {
		if !bytes.Equal(identity(free), base) {
			t.Errorf("%s changes the identity", free)
		}
	}
	for _, bound := range []string{"seed=2", "data.split=0.7", "model.hidden=[3]", "train.epochs=11", "train.batch=4",
		"train.microbatches=2", "train.shuffle=false", "optimizer.lr=0.1", "optimizer.freeze=[a]", "schedule.warmup=3"} {
		if bytes.Equal(identity(bound), base) {
			t.Errorf("%s leaves the identity as it was", bound)
		}
	}
}

func TestRooted(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                           "",
		"a/b.csv":                    filepath.Join(here, "a/b.csv"),
		filepath.Join(here, "b.csv"): filepath.Join(here, "b.csv"),
		"builtin:shakespeare":        "builtin:shakespeare",
	} {
		c := &Config{Data: Data{Path: path}}
		got, err := c.Rooted()
		if err != nil || got.Data.Path != want || c.Data.Path != path {
			t.Errorf("%q: got %q, want %q; the config has %q now; %v", path, got.Data.Path, want, c.Data.Path, err)
		}
	}
}

// TestNotText: a value that is not UTF-8 is a mistake of the config, named by its
// key. A path can be one, and so can the working directory that makes it absolute.
func TestNotText(t *testing.T) {
	for key, c := range map[string]*Config{
		"data.path":         {Data: Data{Source: "csv", Path: "/d\xff/a.csv"}},
		"data.path[1]":      {Data: Data{Source: "text", Path: "/a", MorePaths: []string{"/b\xff"}}},
		"devices.spill_dir": {Devices: Devices{HostMemory: 1 << 20, SpillDir: "/s\xff"}},
	} {
		_, err := c.YAML()
		var fault *Error
		if !errors.As(err, &fault) || fault.Key != key {
			t.Errorf("%s: got %v", key, err)
		}
	}
	if _, err := Load("digits", Overlay{Set: []string{"data.path=d\xff"}}); err == nil || !strings.Contains(err.Error(), `got "d\xff", which is not UTF-8 text`) {
		t.Errorf("an override: got %v", err)
	}
}

// TestKeyAt: a line leads to the key whose value begins there, whatever else is on it.
func TestKeyAt(t *testing.T) {
	c, err := Parse("x", []byte("name: x\n\ndata: {source: csv, path: a.csv, label: l}\nmodel:\n  layers:\n    - {type: dense, units: 4}\n    - {type: relu}\n"), Overlay{Set: []string{"seed=2"}})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range []string{"", "name", "name", "data", "data", "model", "model.layers", "model.layers[1].type", "model.layers[1].type"} {
		if got := c.KeyAt(line); got != want {
			t.Errorf("line %d: %q, want %q", line, got, want)
		}
	}
}

// TestOutcome: of all keys in the tables, those that are not free change the outcome, and of the free ones those that
// are named here alone.
func TestOutcome(t *testing.T) {
	named := []string{"early_stopping", "train.metrics", "data.positive", "checkpoint.best", "checkpoint.every", "checkpoint.keep"}
	seen := 0
	eachKey(rootSection, "", false, func(c *Config) any { return c }, func(path string, k *key, free bool, begin func() (*Config, any)) {
		seen++
		within := func(name string) bool { return path == name || strings.HasPrefix(path, name+".") }
		counts := !free || slices.ContainsFunc(named, within)
		texts, outcomes := map[string]bool{}, map[string]bool{}
		for seed := range 30 {
			c, dst := begin()
			d := newDecoder("drawn", noPaths)
			n, err := yaml.Marshal(rapid.Custom(func(t *rapid.T) *yaml.Node { return drawValue(t, k.kind, path, 0) }).Example(seed))
			if err != nil {
				t.Fatal(err)
			}
			if k.kind.decode(d, defaultNode(string(n)), path, k.at(dst)); len(d.faults) > 0 { // its keys do not suit each other
				continue
			}
			rooted, err := c.Rooted()
			if err != nil {
				t.Fatal(err)
			}
			text, err := rooted.YAML()
			if err != nil {
				t.Fatal(err)
			}
			outcome, err := c.Outcome()
			if err != nil {
				t.Fatal(err)
			}
			texts[string(text)], outcomes[string(outcome)] = true, true
		}
		if len(texts) < 2 {
			t.Errorf("%s (%T): no two values were tried", path, k.kind)
		} else if counts && len(outcomes) != len(texts) || !counts && len(outcomes) != 1 {
			t.Errorf("%s: %d values give %d outcomes", path, len(texts), len(outcomes))
		}
	})
	if seen < 100 {
		t.Errorf("%d keys were tried", seen)
	}
}

// eachKey visits the keys of a section and of those in it, with each value of a selector. begin makes a config in which a key
// applies, and gives the struct that it is in. free says that the key, or a section that it is in, is free.
func eachKey(s *section, path string, free bool, at func(*Config) any, visit func(path string, k *key, free bool, begin func() (*Config, any))) {
	choices := []string{""}
	if s.selector != nil {
		choices = choices[:0]
		for _, v := range s.rows() {
			choices = append(choices, v.name)
		}
	}
	for _, choice := range choices {
		keys, _ := s.active(choice)
		chosen := func(c *Config) any {
			dst := at(c)
			if s.selector != nil {
				*s.selector.at(dst).(*string) = choice
			}
			s.begin(choice, dst)
			return dst
		}
		for _, k := range keys {
			if sub := k.section(); sub != nil {
				eachKey(sub, join(path, k.name), free || k.free, func(c *Config) any { return k.at(chosen(c)) }, visit)
				continue
			}
			visit(join(path, k.name), k, free || k.free, func() (*Config, any) {
				c := &Config{}
				return c, chosen(c)
			})
		}
	}
}
