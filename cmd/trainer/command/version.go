package command

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/internal/build"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and the instruction set in use",
		Long:    "Print the module's version, the revision that it was built from, Go's version, the platform, and the instruction set that the device cpu computes with (BERTH_CPU chooses another). A program of another module also prints that module, whose revision it is then.",
		Example: "  trainer version\n  BERTH_CPU=avx2 trainer version",
		Args:    cli.Args(0),
		RunE:    func(c *cobra.Command, _ []string) error { return printVersion(c) },
	}
}

// addVersionFlag has root print the version with --version.
func addVersionFlag(root *cobra.Command) {
	asked := root.Flags().Bool("version", false, "print the version, as trainer version does")
	alone := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if *asked {
			return printVersion(c)
		}
		return alone(c, args)
	}
}

func printVersion(c *cobra.Command) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	isa, err := instructionSet()
	if err != nil {
		isa = "unknown"
	}
	fmt.Fprint(c.OutOrStdout(), versionText(info, isa))
	return err
}

// versionText words a build and the instruction set in use.
func versionText(info *debug.BuildInfo, isa string) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	version, program := build.Version(info), ""
	if info.Main.Path != "" && info.Main.Path != build.Module {
		program = fmt.Sprintf("program\t%s %s\n", info.Main.Path, cmp.Or(info.Main.Version, "(devel)"))
	}
	revision, jobs := settings["vcs.revision"], ""
	changed := settings["vcs.modified"] == "true"
	if (revision == "" || changed) && build.ExactOf(info) == "" { // no other build is known to compute the same
		jobs = "jobs\tare all trained, also those that were trained before (docs/jobs.md)\n"
	}
	switch {
	case revision == "":
		revision = "unknown (built without version control)"
	case changed:
		revision += " (modified)"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%sberth\t%s\nrevision\t%s\n%sgo\t%s\nplatform\t%s/%s\ncpu\t%s\n", program, version, revision, jobs, info.GoVersion, runtime.GOOS, runtime.GOARCH, isa)
	w.Flush()
	return b.String()
}

// instructionSet names the instruction set that the device cpu computes with.
func instructionSet() (string, error) {
	devs, err := device.Open(cpu.Kind, device.OpenOptions{Count: 1, Threads: 1})
	if err != nil {
		return "", err
	}
	isa := devs[0].Spec().Numerics
	return isa, devs[0].Close()
}
