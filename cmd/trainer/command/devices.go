package command

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func devicesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "devices",
		Short:   "List the kinds of devices: threads, memory, copies, description",
		Example: "  trainer devices",
		Args:    cli.Args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			rows := [][]string{{"DEVICE", "THREADS", "MEMORY", "PEER COPY", "COPY OUT", "DESCRIPTION"}}
			var errs []error
			for _, kind := range device.Kinds() {
				row, err := kindRow(kind)
				rows, errs = append(rows, row), append(errs, err)
			}
			_, err := io.WriteString(c.OutOrStdout(), columns.Format(rows, columns.Layout{Cut: []int{5}, Prose: []int{5}}))
			return errors.Join(append(errs, err)...)
		},
	}
}

// kindRow is the row of a kind's first device.
func kindRow(kind string) ([]string, error) {
	devs, err := device.Open(kind, device.OpenOptions{Count: 1})
	if err != nil {
		return []string{kind}, err
	}
	s := devs[0].Spec()
	row := []string{string(s.ID), fmt.Sprint(s.Threads), units.Bytes(s.MemoryBytes), fmt.Sprint(s.PeerCopy), fmt.Sprint(s.CopyOut), s.Description}
	return row, devs[0].Close()
}
