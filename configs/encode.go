package configs

import (
	"bytes"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// YAML writes the config out, every key that means something given. Parse
// makes an equal config of it, but for the positions.
func (c *Config) YAML() ([]byte, error) {
	return c.encode(func(*key) bool { return true })
}

// Identity is the canonical text of what decides the numbers that a run
// computes: two configs with the same identity, on the same data, compute the
// same weights. Where and how it runs is left out (name, partition, devices,
// checkpoint, early_stopping, train.log_every). One key stands on each line, so
// that two can be compared.
func (c *Config) Identity() ([]byte, error) {
	return c.encode(func(k *key) bool { return !k.free })
}

func (c *Config) encode(keep func(*key) bool) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(rootSection.encode(c, keep)); err != nil {
		return nil, fmt.Errorf("write config %q: %w", c.Name, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write config %q: %w", c.Name, err)
	}
	return out.Bytes(), nil
}

// encode gives the mapping of a struct. Keys that have no default and were not
// given are left out.
func (s *section) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	keys, _ := s.active(s.choice(src))
	for _, k := range keys {
		field := k.at(src)
		absent := k.def == "" && !k.required && reflect.ValueOf(field).Elem().IsZero()
		if _, nested := k.kind.(*section); keep(k) && (nested || !absent) {
			out.Content = append(out.Content, plain(k.name), k.kind.encode(field, keep))
		}
	}
	return out
}
