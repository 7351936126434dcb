package command

import (
	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
)

// costsFlag is the file of measured times.
type costsFlag struct {
	path    string // "" if not given
	measure string // flag by which segments are measured
}

// addCosts gives c the flag --costs. measure is the flag that makes it useful.
func addCosts(c *cobra.Command, measure string) *costsFlag {
	f := &costsFlag{measure: measure}
	c.Flags().StringVar(&f.path, "costs", "", "`FILE` of measured times, which is made where it is missing, with its folder; unless given, that of BERTH_COSTS or one in the user's cache folder. It needs "+measure)
	return f
}

// check refuses a file of times that nobody uses.
func (f *costsFlag) check(cfg *configs.Config) error {
	if f.path != "" && cfg.Partition.Costs != configs.CostsMeasured {
		return cli.Usagef("--costs %s: no times are used; add %s", f.path, f.measure)
	}
	return nil
}
