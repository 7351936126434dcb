package configs

import (
	"strings"
	"testing"
)

// TestAdapt: an adapter is in the text of a config that has one, and in no other's.
func TestAdapt(t *testing.T) {
	const plain = "data: {source: digits}\nmodel: {preset: mlp}\n"
	parse := func(text string, set ...string) (*Config, string) {
		t.Helper()
		c, err := Parse("c.yaml", []byte(text), Overlay{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return c, string(out)
	}
	c, without := parse(plain)
	if c.Adapts() || strings.Contains(without, "adapt") {
		t.Errorf("a config without an adapter:\n%s", without)
	}
	c, with := parse(plain + "adapt: {lora: {rank: 4, targets: [layers.0]}}\n")
	if l := c.Adapt.LoRA; !c.Adapts() || l.Rank != 4 || l.Alpha != 16 || l.Dropout != 0 || c.Where("adapt.lora.targets").Line != 3 {
		t.Errorf("%+v", c.Adapt)
	}
	if c.Adapt.Base != "float32" {
		t.Errorf("the base is %q", c.Adapt.Base)
	}
	for _, base := range []string{"bf16", "int8"} {
		if c, _ := parse(plain + "adapt: {base: " + base + ", lora: {targets: [layers.0]}}\n"); c.Adapt.Base != base {
			t.Errorf("the base is %q", c.Adapt.Base)
		}
	}
	if _, again := parse(with); again != with {
		t.Errorf("read again:\n%s", again)
	}
	if _, set := parse(plain, "adapt.lora.rank=4", "adapt.lora.targets=[layers.0]"); set != with {
		t.Errorf("set:\n%s", set)
	}
	if _, cleared := parse(with, "adapt="); cleared != without {
		t.Errorf("cleared:\n%s", cleared)
	}
}
