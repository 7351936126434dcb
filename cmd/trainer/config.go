package main

import (
	"os"

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
	return configs.Load(name, o)
}
