package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/configs"
)

// configFlags are the flags that lay over a config, for every command that
// reads one.
type configFlags struct {
	set    []string
	values map[string]*string
}

func addConfigFlags(c *cobra.Command) *configFlags {
	f := &configFlags{values: map[string]*string{}}
	c.Flags().StringArrayVar(&f.set, "set", nil, "set a key of the config: --set train.batch=64 (repeatable)")
	for _, flag := range configs.Flags() {
		f.values[flag.Name] = c.Flags().String(flag.Name, "", flag.Usage)
	}
	return f
}

// load reads a config file or a shipped config by name, with environment and
// flags laid over it.
func (f *configFlags) load(c *cobra.Command, name string) (*configs.Config, error) {
	o := configs.Overlay{Set: f.set, Env: os.Environ(), Flags: map[string]string{}}
	for flag, value := range f.values {
		if c.Flags().Changed(flag) {
			o.Flags[flag] = *value
		}
	}
	cfg, err := configs.Load(name, o)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// loadRun reads the config that a run folder was made with.
func (f *configFlags) loadRun(c *cobra.Command, dir string) (*configs.Config, error) {
	path := filepath.Join(dir, "config.yaml")
	if _, err := os.Stat(path); err != nil {
		return nil, usageError{fmt.Errorf("%s is no run folder: there is no %s; trainer train makes one", dir, path)}
	}
	return f.load(c, path)
}
