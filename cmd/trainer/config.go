package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
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
	cfg, err := configs.Load(name, f.overlay(c))
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// overlay is what is laid over a config.
func (f *configFlags) overlay(c *cobra.Command) configs.Overlay {
	o := configs.Overlay{Set: f.set, Env: os.Environ(), Flags: map[string]string{}}
	for flag, value := range f.values {
		if c.Flags().Changed(flag) {
			o.Flags[flag] = *value
		}
	}
	return o
}

// loadRun reads the config that a run folder was made with: where the file was
// lost, from the newest checkpoint.
func (f *configFlags) loadRun(c *cobra.Command, dir string) (*configs.Config, error) {
	path := filepath.Join(dir, "config.yaml")
	text, unread := os.ReadFile(path)
	if len(bytes.Trim(text, " \r\n\x00")) > 0 {
		return f.load(c, path)
	}
	saved, id, err := berth.SavedConfig(dir)
	switch {
	case err == nil:
		fmt.Fprintf(c.ErrOrStderr(), "%s is lost: using the config of checkpoint %d\n", path, id)
	case errors.Is(err, berth.ErrNoCheckpoint), unread == nil && errors.Is(err, checkpoint.ErrNotFound):
		return nil, usageError{fmt.Errorf("%s is lost, and no checkpoint gives its contents, since none has been saved: there is nothing to go on from; trainer train CONFIG --run %s begins the run", path, dir)}
	case unread != nil && (errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, syscall.ENOTDIR)):
		return nil, usageError{fmt.Errorf("%s is no run folder: there is no %s; trainer train makes one", dir, path)}
	default:
		return nil, fmt.Errorf("%s is lost, and no checkpoint gives its contents: %w; trainer train CONFIG --run %s --resume takes the config from elsewhere", path, err, dir)
	}
	cfg, err := configs.Parse(path, saved, f.overlay(c))
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}
