package configs

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// YAML writes the config with every key that applies to it. Parse turns the text
// into an equal config, except for the positions.
func (c *Config) YAML() ([]byte, error) {
	return c.encode(func(*key) bool { return true })
}

// Identity is the canonical text of the keys that decide the numbers of a run.
// Two configs with the same identity, on the same data, compute the same
// weights. Keys that only decide where and how it runs are not in it: name,
// partition, devices, checkpoint, early_stopping, train.log_every.
func (c *Config) Identity() ([]byte, error) { return c.encode(decides) }

// decides reports whether a key is part of the identity.
func decides(k *key) bool { return !k.free }

// Outcome is the canonical text of the keys that decide what a run leaves, with absolute paths: those of Identity, and
// early_stopping, train.metrics, data.positive, checkpoint.best, every and keep. Two runs with the same one, on the same data and
// kinds of devices, are as good as each other.
func (c *Config) Outcome() ([]byte, error) {
	rooted, err := c.Rooted()
	if err != nil {
		return nil, err
	}
	return rooted.encode(func(k *key) bool { return !k.free || k.kept })
}

// A Setting is a key of a config, by its path such as model.layers[1].units,
// with its value as YAML.
type Setting struct{ Key, Value string }

// Settings lists the identity key by key, so that two identities can be compared.
func (c *Config) Settings() ([]Setting, error) {
	return settings(rootSection.encode(c, decides), "", nil)
}

// AllSettings is Settings with the keys that do not decide the numbers of a run, too.
func (c *Config) AllSettings() ([]Setting, error) {
	return settings(rootSection.encode(c, func(*key) bool { return true }), "", nil)
}

// settings appends the keys of a tree. The mappings in a list are entered; any
// other list is one value.
func settings(n *yaml.Node, path string, out []Setting) (_ []Setting, err error) {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
			out, err = settings(n.Content[i+1], join(path, n.Content[i].Value), out)
		}
		return out, err
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		for i := 0; i < len(n.Content) && err == nil; i++ {
			out, err = settings(n.Content[i], fmt.Sprintf("%s[%d]", path, i), out)
		}
		return out, err
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return append(out, Setting{path, strings.TrimSpace(string(text))}), nil
}

func (c *Config) encode(keep func(*key) bool) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	full := *c
	full.Devices = c.Devices.WithDefaults()
	full.Partition.Replicas = cmp.Or(c.Partition.Replicas, 1)
	full.Partition.Shard = cmp.Or(c.Partition.Shard, ShardNone)
	full.Partition.Rebalance = cmp.Or(c.Partition.Rebalance, RebalanceAuto)
	full.Train.Reduction = cmp.Or(c.Train.Reduction, ReduceOrder)
	root := rootSection.encode(&full, keep)
	if err := checkText(root, c.Pos.File, ""); err != nil {
		return nil, err
	}
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("write config %q: %w", c.Name, err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write config %q: %w", c.Name, err)
	}
	return out.Bytes(), nil
}

// checkText finds the first value of a tree that is not UTF-8. YAML cannot hold
// it, but a path can: names of files are any bytes.
func checkText(n *yaml.Node, file, path string) error {
	if n.Kind == yaml.ScalarNode && !utf8.ValidString(n.Value) {
		return &Error{Pos: Pos{File: file}, Key: path, Msg: fmt.Sprintf("%q is not UTF-8 text, as all text of a config is; give another, or rename the file or folder", n.Value)}
	}
	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if n.Kind == yaml.MappingNode {
			at = join(path, n.Content[i&^1].Value) // keys and values take turns
		}
		if err := checkText(child, file, at); err != nil {
			return err
		}
	}
	return nil
}

// Rooted is the config with absolute paths, and a schedule in place of its file: it
// means the same from any working directory. Data inside the binary ("builtin:…") has no path.
func (c *Config) Rooted() (*Config, error) {
	out := *c
	roots := map[string][]*string{"data.path": {&out.Data.Path}, "data.chat_template": {&out.Data.ChatTemplate}, "devices.spill_dir": {&out.Devices.SpillDir}}
	out.Data.MorePaths = slices.Clone(c.Data.MorePaths)
	for i := range out.Data.MorePaths {
		roots["data.path"] = append(roots["data.path"], &out.Data.MorePaths[i])
	}
	if x := c.Data.Division; x != nil {
		rooted := *x
		out.Data.Division = &rooted
		roots["data.split"] = []*string{&rooted.ValPath, &rooted.TestPath}
	}
	if out.Data.TokenizerFile() != "" {
		roots["data.tokenizer"] = []*string{&out.Data.Tokenizer}
	}
	for key, list := range roots {
		if err := root(key, list); err != nil {
			return nil, err
		}
	}
	text, err := orderText(out.Partition.Schedule)
	if err != nil {
		return nil, fmt.Errorf("partition.schedule: %w", err)
	}
	out.Partition.Schedule = text
	return &out, nil
}

// root makes the paths of a key absolute.
func root(key string, list []*string) error {
	for _, path := range list {
		if *path == "" || strings.HasPrefix(*path, builtIn) {
			continue
		}
		full, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("%s %s: %w", key, *path, err)
		}
		*path = full
	}
	return nil
}

// Kept is the text that a run folder and a checkpoint keep: its paths hold from any working
// folder.
func (c *Config) Kept() ([]byte, error) {
	rooted, err := c.Rooted()
	if err != nil {
		return nil, err
	}
	return rooted.YAML()
}
