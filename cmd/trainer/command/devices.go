package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func devicesCommand() *cobra.Command {
	var kernels bool
	c := &cobra.Command{
		Use:     "devices",
		Short:   "List the devices of this machine",
		Long:    "List the devices that there are, by kind. Lines below the table tell of devices that cannot be used, and of what is missing. BERTH_OPENCL=TEXT keeps those devices of opencl alone whose names contain TEXT.",
		Example: "  trainer devices\n  trainer devices --kernels",
		Args:    cli.Args(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out := console.NewProse(c.OutOrStdout())
			if kernels {
				_, err := io.WriteString(out, kernelTable())
				return err
			}
			var missing strings.Builder
			rows := [][]string{{"DEVICE", "THREADS", "MEMORY", "PEER COPY", "COPY OUT", "DESCRIPTION"}}
			var errs []error
			for _, kind := range device.Kinds() {
				specs, err := device.List(kind)
				switch {
				case errors.Is(err, device.ErrAbsent) || err != nil && specs != nil:
					missing.WriteString(err.Error() + "\n")
				case err != nil:
					rows, errs = append(rows, []string{kind}), append(errs, err)
				}
				for _, s := range specs {
					rows = append(rows, rowOf(s))
				}
			}
			_, err := io.WriteString(out, columns.Format(rows, columns.Layout{Cut: []int{5}, Prose: []int{5}, Drop: []int{4, 3}, Width: console.Room(out)})+missing.String())
			return errors.Join(append(errs, err)...)
		},
	}
	c.Flags().BoolVar(&kernels, "kernels", false, "list the kernels instead, and the kinds of device that have each")
	return c
}

// kernelTable lists the kernels of all kinds.
func kernelTable() string {
	var text strings.Builder
	kinds := map[string][]string{} // that have a kernel
	for _, kind := range device.Kinds() {
		list, ok := device.KernelsOf(kind)
		if !ok {
			fmt.Fprintf(&text, "%s: computes nothing, and takes every op\n", kind)
			continue
		}
		fmt.Fprintf(&text, "%s: %s, %s\n", kind, units.Count(len(list.Names), "kernel"), list.About)
		for _, name := range list.Names {
			kinds[name] = append(kinds[name], kind)
		}
	}
	rows := [][]string{{"KERNEL", "KINDS"}}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		rows = append(rows, []string{name, strings.Join(kinds[name], ", ")})
	}
	return text.String() + columns.Format(rows, columns.Layout{})
}

// rowOf is the row of a device.
func rowOf(s device.Spec) []string {
	return []string{string(s.ID), fmt.Sprint(s.Threads), units.Bytes(s.MemoryBytes), fmt.Sprint(s.PeerCopy), fmt.Sprint(s.CopyOut), s.Description}
}
