package configs

import (
	"reflect"
	"testing"
)

// withoutPos gives the config with every position cleared, so that two can be
// compared.
func withoutPos(c *Config) *Config {
	out := *c
	out.Model.Layers = append([]Layer(nil), c.Model.Layers...)
	out.where = nil
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

func TestShippedConfigsLoad(t *testing.T) {
	want := []string{"digits", "digits-cnn", "mnist-cnn", "mnist-mlp", "shakespeare"}
	if got := Names(); !reflect.DeepEqual(got, want) {
		t.Fatalf("Names() = %v, want %v", got, want)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c, err := Load(name, Overlay{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Name != name || c.Data.Pos.Line == 0 || c.Model.Pos.File != "configs/"+name+".yaml" {
				t.Errorf("name %q, data at %v, model at %v", c.Name, c.Data.Pos, c.Model.Pos)
			}
			roundTrip(t, c)
		})
	}
}
