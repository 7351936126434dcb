package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/columns"
)

// ConfigFlags are the flags that change a config, of every command that reads
// one.
type ConfigFlags struct {
	set    []string
	values map[string]*configValue // by flag
}

// configValue is the value of a flag that sets a key of the config. Help calls it as the
// key's table does.
type configValue struct{ text, takes string }

func (v *configValue) Set(text string) error { v.text = text; return nil }
func (v *configValue) String() string        { return v.text }
func (v *configValue) Type() string          { return v.takes }

// AddConfigFlags gives c those flags, but those of keys that do not count for the command.
func AddConfigFlags(c *cobra.Command, but ...string) *ConfigFlags {
	f := &ConfigFlags{values: map[string]*configValue{}}
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key of the config: `KEY=VALUE`, such as train.batch=64; can be repeated")
	f.add(c, func(flag configs.Flag) bool { return !flag.Trains && !slices.Contains(but, flag.Key) })
	return f
}

// AddTrainingFlags gives c those that only training has.
func (f *ConfigFlags) AddTrainingFlags(c *cobra.Command) {
	f.add(c, func(flag configs.Flag) bool { return flag.Trains })
}

// AddFlag gives c the flag of that name, which otherwise only training has.
func (f *ConfigFlags) AddFlag(c *cobra.Command, name string) {
	f.add(c, func(flag configs.Flag) bool { return flag.Name == name })
}

// add gives c the flags of keys that are wanted.
func (f *ConfigFlags) add(c *cobra.Command, wanted func(configs.Flag) bool) {
	for _, flag := range configs.Flags() {
		if !wanted(flag) {
			continue
		}
		v := &configValue{takes: flag.Takes}
		c.Flags().Var(v, flag.Name, cmp.Or(short[flag.Name], plain(flag.Usage)))
		c.Flags().Lookup(flag.Name).NoOptDefVal = flag.Alone
		f.values[flag.Name] = v
	}
}

// short are the texts of flags whose key needs more words than help has room for:
// docs/config.md has these.
var short = map[string]string{
	"compile":       "when segments are compiled: wait (before the first step), or beside (while steps run op by op)",
	"device-memory": "memory that each device may use: 64MiB, or 50% of what the plan takes without a limit; 0: all it has",
	"epochs":        "passes over the training samples; more of them go on with a run that is finished",
	"host-memory":   "most host memory for tensors that are on no device, such as 1GiB; the others go to a file",
	"metrics":       "metrics to compute: auto, all, or a list such as auc,top_3",
	"op-by-op":      "run each op by itself and stop at the first NaN or infinite result: plain, or log, trace or sync to see more",
	"schedule":      "the schedule of the learning rate, such as cosine",
	"share-device":  "let several devices of opencl be on one physical device, for tests",
	"spill-dir":     "folder of the file that --host-memory needs (default: the run folder)",
	"threads":       "worker threads of all devices together; 0: one for each core",
	"watch":         "show the mean loss since the last look, once in so long, such as 1s",
}

// plain is a text of docs/config.md without its links and backquotes: a flag would take a
// quoted word for the name of its value.
func plain(text string) string {
	return link.ReplaceAllString(strings.ReplaceAll(text, "`", ""), "$1")
}

// link is a link to another page, with its text.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// Load reads a config file, or a shipped config by name. Environment variables
// and flags win over it.
func (f *ConfigFlags) Load(c *cobra.Command, name string) (*configs.Config, error) {
	cfg, err := configs.Load(name, f.Overlay(c))
	if err != nil {
		return nil, cli.Usage(err)
	}
	return cfg, nil
}

// Given is the name of a flag of c that changes a config; "" if none is given.
func (f *ConfigFlags) Given(c *cobra.Command) (name string) {
	c.Flags().Visit(func(x *pflag.Flag) {
		if _, ours := f.values[x.Name]; ours || x.Name == "set" {
			name = x.Name
		}
	})
	return name
}

// Overlay is what wins over a config.
func (f *ConfigFlags) Overlay(c *cobra.Command) configs.Overlay {
	o := configs.Overlay{Set: f.set, Env: os.Environ(), Flags: map[string]string{}}
	for flag, value := range f.values {
		if c.Flags().Changed(flag) {
			o.Flags[flag] = value.text
		}
	}
	return o
}

// LoadRun reads the config of the run in a folder: config.yaml or, where that
// was lost, the newest checkpoint's.
func (f *ConfigFlags) LoadRun(c *cobra.Command, dir string) (*configs.Config, error) {
	path, text, err := f.RunText(c, dir)
	if err != nil {
		return nil, err
	}
	return f.ParseRun(c, path, text)
}

// ParseRun reads the config of a run from its text.
func (f *ConfigFlags) ParseRun(c *cobra.Command, path string, text []byte) (*configs.Config, error) {
	cfg, err := configs.Parse(path, text, f.Overlay(c))
	if err != nil {
		return nil, cli.Usage(err)
	}
	return cfg, nil
}

// RunText is the path and the text of the config of the run in a folder.
func (f *ConfigFlags) RunText(c *cobra.Command, dir string) (path string, text []byte, err error) {
	dir = osfile.Resolve(dir)
	path = filepath.Join(dir, "config.yaml")
	text, id, err := rundir.ConfigText(dir)
	var lost *rundir.LostConfigError
	switch {
	case errors.As(err, &lost):
		return path, nil, lostConfig(dir, path, lost.Unread, lost.Saved)
	case errors.Is(err, osfile.ErrNotFile):
		return path, nil, cli.Usage(err)
	case err != nil:
		return path, nil, err
	}
	if id != 0 {
		state := "is lost"
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			state = "is not there"
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s %s: using the config of checkpoint %d\n", columns.Printed(path), state, id)
	}
	return path, text, nil
}

// LoadTrained is LoadRun for a command that uses the model as it was trained: it refuses the keys
// that could not change it.
func (f *ConfigFlags) LoadTrained(c *cobra.Command, dir string) (*configs.Config, error) {
	for _, pair := range f.set {
		name, _, _ := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); configs.Fitted(name) {
			return nil, cli.Usagef("--set %s: %s belongs to the model, which was trained with it: leave it out, or train anew with it", pair, name)
		}
	}
	return f.LoadRun(c, dir)
}

// isFile reports whether a path leads to something other than a folder.
func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// lostConfig words why a folder gives no config: neither its file, whose read
// ended with unread, nor its checkpoints, whose read ended with err.
func lostConfig(dir, path string, unread, err error) error {
	switch {
	case isFile(dir) && filepath.Base(dir) == rundir.CheckpointsName:
		return cli.Usagef("%s is not a run folder: name its folder, %s", dir, filepath.Dir(dir))
	case isFile(dir) && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(dir)):
		return cli.Usagef("%s is a config, not a run folder: name the one that trainer train %s makes", dir, dir)
	case isFile(dir) && slices.Contains([]string{".csv", ".tsv", ".jsonl", ".parquet"}, filepath.Ext(dir)):
		return cli.Usagef("%s is a file of data, not a run folder: name the folder of a run first", dir)
	case isFile(dir):
		return cli.Usagef("%s is a file, not a run folder; to use a copy of checkpoints, put it into an empty folder under the name %s, and name that folder", dir, rundir.CheckpointsName)
	case errors.Is(err, berth.ErrNoCheckpoint), unread == nil && errors.Is(err, checkpoint.ErrNotFound):
		return cli.Usagef("%s is missing, and no checkpoint has a copy of it, so the run cannot go on; begin it with: trainer train CONFIG --run %s", path, dir)
	case unread != nil && (errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, syscall.ENOTDIR)):
		near, _ := rundir.Runs(filepath.Dir(dir)) // without the folder, no run is near
		return cli.Usagef("%s is not a run folder: it has no %s; trainer train makes one%s", dir, filepath.Base(path), cli.DidYouMean(dir, near))
	}
	return fmt.Errorf("%s is missing, and the copy of it in the checkpoints cannot be read: %w; give the config again with trainer train CONFIG --run %s --resume", path, err, dir)
}
