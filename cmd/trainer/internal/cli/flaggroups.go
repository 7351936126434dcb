package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the groups of flags in help, in their order. A flag that none names is
// in the first one.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Flags", nil},
	{"Data and model", []string{"set", "init", "metrics", "checkpoint", "best", "last", "part", "context", "precision", "overfit-batch"}},
	{"Limits", []string{"batch", "client-share", "deadline", "drain", "max-body", "max-memory", "max-requests", "max-samples", "max-tokens", "queue", "texts"}},
	{"Devices and memory", []string{
		"devices", "threads", "device-memory", "host-memory", "spill-dir", "share-device", "microbatches", "stages", "reduction", "replicas", "shard",
		"recompute",
	}},
	{"Checking and drills", []string{"allow-changed", "assert-resident", "compile", "costs", "dump", "fault", "op-by-op", "profile", "report", "timeout"}},
}

// rare are the flags that only --help --all lists, of every command. See [Rare].
var rare = []string{"allow-changed", "assert-resident", "compile", "costs", "dump", "fault", "host-memory", "op-by-op", "report", "share-device", "spill-dir", "timeout"}

// rareMark is the annotation of a flag that is rare in its command.
const rareMark = "rare"

// Rare leaves flags of c to --help --all.
func Rare(c *cobra.Command, names ...string) {
	for _, name := range names {
		if err := c.Flags().SetAnnotation(name, rareMark, nil); err != nil {
			panic("BUG: " + c.Name() + ": " + err.Error())
		}
	}
}

func isRare(f *pflag.Flag) bool {
	_, marked := f.Annotations[rareMark]
	return marked || slices.Contains(rare, f.Name)
}

// groupOf is the number of a flag's group.
func groupOf(name string) int {
	for i, g := range flagGroups {
		if slices.Contains(g.flags, name) {
			return i
		}
	}
	return 0
}
