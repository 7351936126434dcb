package registry

import (
	"fmt"
	"strings"
	"testing"
)

type swish struct {
	Beta float64 `yaml:"beta" min:"0" doc:"slope"`
	Size []int   `yaml:"size"`
}

func (s swish) Check() error {
	if s.Beta == 13 {
		return fmt.Errorf("beta is 13")
	}
	return nil
}

// fresh runs f on an empty registry.
func fresh(t *testing.T) {
	before, was := entries, sealed
	entries, sealed = nil, false
	t.Cleanup(func() { entries, sealed = before, was })
}

func add(e Entry) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprint(r)
		}
	}()
	Add(e, func() {})
	return ""
}

func TestAddRefusesWhatCannotBe(t *testing.T) {
	fresh(t)
	if said := add(Entry{Kind: Layer, Name: "swish", Version: 1, Keys: swish{Beta: 2}}); said != "" {
		t.Fatal(said)
	}
	type named struct {
		Name string `yaml:"name"`
	}
	for want, e := range map[string]Entry{
		`layer "swish" version 2: the name exists already`: {Kind: Layer, Name: "swish", Version: 2},
		"the name must be lower-case letters":              {Kind: Layer, Name: "My-Layer", Version: 1},
		"the version must be at least 1":                   {Kind: Layer, Name: "a"},
		`key "name" exists already`:                        {Kind: Layer, Name: "b", Version: 1, Keys: named{}},
		"the keys are a int: give a struct":                {Kind: Layer, Name: "c", Version: 1, Keys: 3},
		"it is a func(): use bool, int": {Kind: Layer, Name: "d", Version: 1, Keys: struct {
			F func() `yaml:"f"`
		}{}},
		"it is not exported": {Kind: Layer, Name: "e", Version: 1, Keys: struct {
			beta float64 `yaml:"beta"`
		}{beta: 1}},
		"its keys have a list of layers": {Kind: Loss, Name: "i", Version: 1, Keys: struct {
			Body []any `yaml:"layers,nested"`
		}{}},
		`its key is "": give it a tag such as`: {Kind: Layer, Name: "f", Version: 1, Keys: struct{ Beta int }{}},
		`its tag min is "x"`: {Kind: Layer, Name: "g", Version: 1, Keys: struct {
			B int `yaml:"b" min:"x"`
		}{}},
		"are the key": {Kind: Layer, Name: "h", Version: 1, Keys: struct {
			B int `yaml:"b"`
			C int `yaml:"b"`
		}{}},
	} {
		if said := add(e); !strings.Contains(said, want) {
			t.Errorf("got %q, expected %q", said, want)
		}
	}
	if said := add(Entry{Kind: Loss, Name: "swish", Version: 1}); said != "" {
		t.Errorf("a loss of a layer's name: %s", said)
	}
	if list := List(Layer); len(list) != 1 || list[0].Name != "swish" {
		t.Errorf("the layers are %v", list)
	}
	if said := add(Entry{Kind: Loss, Name: "late", Version: 1}); !strings.Contains(said, "names have been looked up already") {
		t.Errorf("after the first List: %q", said)
	}
}

func TestKeysOf(t *testing.T) {
	defaults := swish{Beta: 2}
	for _, c := range []struct {
		given any
		want  float64
		err   string
	}{
		{nil, 2, ""}, {swish{Beta: 3}, 3, ""}, {&swish{Beta: 4}, 4, ""}, {swish{Beta: 13}, 13, "beta is 13"}, {7, 2, "its keys are a int: give a registry.swish"},
	} {
		got, err := KeysOf(c.given, defaults)
		if got.Beta != c.want || fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
			t.Errorf("%v gives %v, %v", c.given, got, err)
		}
	}
	e := Entry{Keys: defaults}
	e.New().(*swish).Beta = 9
	if p := e.New().(*swish); p.Beta != 2 {
		t.Errorf("a copy of the defaults has %v", p.Beta)
	}
}
