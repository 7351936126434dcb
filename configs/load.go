package configs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/registry"
)

//go:embed *.yaml
var shipped embed.FS

// Names lists the shipped configs.
func Names() []string {
	files, err := fs.Glob(shipped, "*.yaml")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	slices.Sort(files)
	return files
}

// Source gives the text of a shipped config. ErrNotFound if there is none.
func Source(name string) ([]byte, error) {
	data, err := shipped.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not one of the configs that ship with Berth%s", ErrNotFound, name, didYouMean(name, Names()))
	}
	return data, nil
}

// Load reads the shipped config of that name, or else the file at that path. All
// mistakes come back at once, as errors.Join of [*Error]s.
func Load(path string, o Overlay) (*Config, error) {
	if slices.Contains(Names(), path) {
		data, err := Source(path)
		if err != nil {
			return nil, err
		}
		return parseAs("shipped "+path+".yaml", path, data, o)
	}
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !strings.ContainsAny(path, `/\.`) {
			return nil, fmt.Errorf("%w: %q is neither a file nor a config that ships with Berth%s", ErrNotFound, path, didYouMean(path, Names()))
		}
		return nil, fmt.Errorf("%w: there is no file %s; `trainer configs list` names those that ship with Berth%s", ErrNotFound, path, otherEnding(path))
	}
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	if dataName.MatchString(path) {
		return nil, &Error{Pos: Pos{File: path}, Msg: fmt.Sprintf("this is data and no config; `trainer new %s` writes a config for it", path)}
	}
	return Parse(path, data, o)
}

// otherEnding names the file that has the other ending of YAML files; "" if there is none.
func otherEnding(path string) string {
	for end, other := range map[string]string{".yml": ".yaml", ".yaml": ".yml"} {
		if begin, ok := strings.CutSuffix(path, end); ok && matches(begin+other) {
			return "; did you mean " + begin + other + "?"
		}
	}
	return ""
}

// textOfConfig is the text of a config that ships with Berth, or of a file.
func textOfConfig(path string) ([]byte, error) {
	if slices.Contains(Names(), path) {
		return Source(path)
	}
	return readFile(path)
}

// dataName is the name of a file of data, which is no config.
var dataName = regexp.MustCompile(`\.(csv|tsv|jsonl|ndjson|parquet)(\.gz|\.zst)?$`)

// readFile reads a file, and of a large one no more than shows that it is too
// large.
func readFile(path string) ([]byte, error) {
	text, err := osfile.Read(path, MaxFile+1)
	if errors.Is(err, osfile.ErrNotFile) {
		own := filepath.Join(path, "config.yaml")
		if st, missing := os.Stat(own); missing == nil && st.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is a folder; the config of a run is %s", path, own)
		}
		return nil, fmt.Errorf("%s is not a file; give the path of a config file, not of a folder or pipe", path)
	}
	return text, err
}

// Parse reads a config from memory. Messages name it file, whose base name is the
// default of the config's name. Relative paths in it begin at file's folder, and those of
// o at the working folder; in the config that is returned, all begin at the latter.
func Parse(file string, data []byte, o Overlay) (*Config, error) {
	return parseAs(file, NameOf(file), data, o)
}

// parseAs is Parse with the default of the config's name.
func parseAs(file, name string, data []byte, o Overlay) (*Config, error) {
	return newDecoder(file, Keys).parse(name, data, o)
}

// parse is [Parse] with the default of the config's name.
func (d *decoder) parse(name string, data []byte, o Overlay) (*Config, error) {
	if err := registeredNames(); err != nil {
		return nil, err
	}
	root, err := readConfig(d.file, data)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct{ key, what string }{{sweepKey, "a sweep"}, {jobsKey, "a pipeline"}} {
		if lookUp(root, of.key) != nil {
			return nil, &Error{Pos: Pos{File: d.file}, Msg: fmt.Sprintf("this is the file of %s and no config; `trainer submit %s` queues it", of.what, d.file)}
		}
	}
	own := d.written(root)
	applyOverlay(d, root, o)
	d.dropRetired(root)
	c := decodeConfig(d, root)
	c.written = own
	if c.Name == "" {
		c.Name = name
	}
	if err := joinFaults(d.faults); err != nil {
		return nil, err
	}
	return c, nil
}

// registeredNames refuses a program without layers or other names that every config has.
func registeredNames() error {
	for _, k := range []registry.Kind{registry.Layer, registry.Optimizer, registry.Schedule} {
		if !registry.Any(k) {
			return fmt.Errorf("no %s is registered in this program: import package berth, or a package that registers it", k)
		}
	}
	return nil
}

// written reads what a file says of the run's length. Its faults are reported later, unless
// an override mends them.
func (d *decoder) written(root *yaml.Node) *written {
	w, apart := &written{}, newDecoder(d.file, d.paths)
	trainSection.decode(apart, lookUp(root, "train"), "train", &w.train)
	scheduleSection.decode(apart, lookUp(root, "schedule"), "schedule", &w.schedule)
	return w
}

// decodeConfig turns a tree into a config. Faults collect in d.
func decodeConfig(d *decoder, root *yaml.Node) *Config {
	c := &Config{where: d.where}
	rootSection.decode(d, root, "", c)
	c.Notes = d.notes
	if len(d.faults) == 0 {
		for _, check := range d.checks {
			check()
		}
		for _, rule := range rules {
			rule(d, c)
		}
	}
	return c
}

// Check reports the mistakes of a config that code has changed or made: those
// that Load would report for a file with the same values.
func (c *Config) Check() error {
	if err := c.checkKeys(); err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	root, err := readConfig(c.Pos.File, text)
	var beyond *Error
	if errors.As(err, &beyond) { // a limit: a short file can have many keys by default
		return &Error{Pos: Pos{File: c.Pos.File}, Msg: "written with all its keys, as a run keeps it: " + beyond.Msg}
	}
	if err != nil {
		return err
	}
	d := newDecoder("", Keys)
	decodeConfig(d, root)
	return d.unplaced()
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// NameOf derives a run's name from a file's: without its extension, and with '-' for
// what a name cannot have.
func NameOf(file string) string {
	base := filepath.Base(file)
	base = strings.Trim(notInName.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-"), ".-")
	if !namePattern.MatchString(base) {
		return "run"
	}
	return base
}
