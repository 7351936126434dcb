package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// aloneInBench are the flags of bench that one process alone knows.
var aloneInBench = []string{"generate", "serve", "scaling", "watch", "profile", "fault"}

// checkBench refuses what several processes cannot measure together. failed is what is wrong with the flags of one.
func (t *training) checkBench(c *cobra.Command, failed error) error {
	if t.ranks == nil {
		return failed
	}
	var given []string
	for _, name := range aloneInBench {
		if c.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	err := failed
	if err == nil && given != nil {
		err = cli.Usagef("bench %s is of one process, and %d were started: start one, set BERTH_MPI=off, or leave it out to measure training together", strings.Join(given, " "), t.ranks.Size())
	}
	return t.agree(c.Context(), "its flags", err)
}

// benchOptions are the options of bench with the processes that there are. Unless flags say how these divide the model, package
// bench does.
func (t *training) benchOptions(c *cobra.Command, o bench.RunOptions) bench.RunOptions {
	if t.ranks == nil {
		return o
	}
	o.Ranks = t.ranks
	if !c.Flags().Changed("replicas") {
		o.Replicas = 0
	}
	if !c.Flags().Changed("shard") {
		o.Shard = ""
	}
	return o
}
