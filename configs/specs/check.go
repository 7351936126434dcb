package specs

import (
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/internal/errs"
)

// Check is the config with the defaults of its devices. It refuses one with mistakes, and one
// that asks for another model than the program gives; given is nil where that gives none.
func Check(c *configs.Config, given models.Layer) (*configs.Config, error) {
	if err := CheckKeys(c); err != nil {
		return nil, err
	}
	if err := CheckSpillDir(c.Devices, c.Where("devices.spill_dir")); err != nil {
		return nil, err
	}
	whole := *c
	whole.Devices = c.Devices.WithDefaults()
	return &whole, checkOwnModel(c, given)
}

// CheckKeys refuses a config that is nil or has mistakes.
func CheckKeys(c *configs.Config) error {
	if c == nil {
		return fmt.Errorf("%w: the config is nil: load one with configs.Load", errs.ErrOptions)
	}
	return c.Check()
}

// CheckSpillDir refuses a folder for spills that is not there. p is where it is named.
func CheckSpillDir(c configs.Devices, p configs.Pos) error {
	if c.SpillDir == "" {
		return nil
	}
	err := hostfile.CheckFolder(c.SpillDir)
	switch {
	case err == nil:
		return nil
	case p != (configs.Pos{}) && p.Line == 0: // a flag, with the folder
		return configs.At(p, err)
	}
	return configs.At(p, fmt.Errorf("devices.spill_dir: %s: %w", c.SpillDir, err))
}
