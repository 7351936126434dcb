package configs

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
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
