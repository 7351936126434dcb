package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// costsFlag is the file of measured times.
type costsFlag struct {
	path string // "" if not given
}

// measured is what makes measured times count, if a command does not measure by itself.
const measured = "--set partition.costs=measured"

// addCosts gives c the flag --costs, which is useful with what the text says.
func addCosts(c *cobra.Command, with string) *costsFlag {
	f := &costsFlag{}
	c.Flags().StringVar(&f.path, "costs", "", "`FILE` of measured times"+with+" (default: BERTH_COSTS, or a file in the cache folder)")
	return f
}

// check refuses a file of times that nobody uses.
func (f *costsFlag) check(cfg *configs.Config) error {
	if f.path != "" && !timed(cfg) {
		return cli.Usagef("--costs %s: this plan uses no measured times, so the file would not be read; add %s, or leave --costs out", f.path, measured)
	}
	return nil
}

// timed reports whether a config asks for measured times, or leaves that to devices of
// several kinds.
func timed(cfg *configs.Config) bool {
	switch cfg.Partition.Costs {
	case configs.CostsMeasured:
		return true
	case configs.CostsFlops:
		return false
	}
	kinds := map[string]bool{}
	entries := append([]configs.DeviceEntry{{Use: cfg.Devices.Use}}, cfg.Devices.Each...)
	if len(cfg.Devices.Each) > 0 {
		entries = entries[1:]
	}
	for _, e := range entries {
		list, _ := device.ParseList(e.Use) // a mistake is told when the devices are opened
		for _, x := range list {
			kinds[x.Kind] = true
		}
	}
	return len(kinds) > 1
}
