package command

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

func devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "devices",
		Short:   "List the kinds of devices: threads, memory, copies, description",
		Example: "  trainer devices",
		Args:    cli.Args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "DEVICE\tTHREADS\tMEMORY\tPEER COPY\tCOPY OUT\tDESCRIPTION")
			var errs []error
			for _, kind := range device.Kinds() {
				errs = append(errs, printKind(w, kind))
			}
			return errors.Join(append(errs, w.Flush())...)
		},
	}
}

// printKind prints the row of a kind's first device.
func printKind(w io.Writer, kind string) error {
	devs, err := device.Open(kind, device.OpenOptions{Count: 1})
	if err != nil {
		return err
	}
	s := devs[0].Spec()
	fmt.Fprintf(w, "%s\t%d\t%s\t%v\t%v\t%s\n", s.ID, s.Threads, units.Bytes(s.MemoryBytes), s.PeerCopy, s.CopyOut, s.Description)
	return devs[0].Close()
}
