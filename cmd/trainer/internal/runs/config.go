package runs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
)

// ConfigFlags are the flags that change a config, of every command that reads
// one.
type ConfigFlags struct {
	set    []string
	values map[string]*string
}

// AddConfigFlags gives c those flags.
func AddConfigFlags(c *cobra.Command) *ConfigFlags {
	f := &ConfigFlags{values: map[string]*string{}}
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key of the config, such as train.batch=64: `KEY=VALUE`; may be given again for other keys")
	for _, flag := range configs.Flags() {
		f.values[flag.Name] = c.Flags().String(flag.Name, "", plain(flag.Usage))
	}
	return f
}

// plain is a text of docs/config.md without its marks of code, which a flag's
// usage would take for the name of its value.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// Load reads a config file, or a shipped config by name. Environment variables
// and flags win over it.
func (f *ConfigFlags) Load(c *cobra.Command, name string) (*configs.Config, error) {
	cfg, err := configs.Load(name, f.overlay(c))
	if err != nil {
		return nil, cli.Usage(err)
	}
	return cfg, nil
}

// overlay is what wins over a config.
func (f *ConfigFlags) overlay(c *cobra.Command) configs.Overlay {
	o := configs.Overlay{Set: f.set, Env: os.Environ(), Flags: map[string]string{}}
	for flag, value := range f.values {
		if c.Flags().Changed(flag) {
			o.Flags[flag] = *value
		}
	}
	return o
}

// LoadRun reads the config of the run in a folder: config.yaml or, where that
// was lost, the newest checkpoint's.
func (f *ConfigFlags) LoadRun(c *cobra.Command, dir string) (*configs.Config, error) {
	path := filepath.Join(dir, "config.yaml")
	text, unread := os.ReadFile(path)
	if len(bytes.Trim(text, " \r\n\x00")) > 0 {
		return f.Load(c, path)
	}
	saved, id, err := rundir.SavedConfig(dir)
	if err != nil {
		return nil, lostConfig(dir, path, unread, err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s is lost: using the config of checkpoint %d\n", path, id)
	cfg, err := configs.Parse(path, saved, f.overlay(c))
	if err != nil {
		return nil, cli.Usage(err)
	}
	return cfg, nil
}

// lostConfig words why a folder gives no config: neither its file, whose read
// ended with unread, nor its checkpoints, whose read ended with err.
func lostConfig(dir, path string, unread, err error) error {
	switch {
	case errors.Is(err, berth.ErrNoCheckpoint), unread == nil && errors.Is(err, checkpoint.ErrNotFound):
		return cli.Usagef("%s is lost, and no checkpoint has been saved that would hold it: there is nothing to go on from; trainer train CONFIG --run %s begins the run", path, dir)
	case unread != nil && (errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, syscall.ENOTDIR)):
		return cli.Usagef("%s is not a run folder: it has no %s; trainer train makes one", dir, filepath.Base(path))
	}
	return fmt.Errorf("%s is lost, and no checkpoint can be read that would hold it: %w; trainer train CONFIG --run %s --resume takes the config from elsewhere", path, err, dir)
}
