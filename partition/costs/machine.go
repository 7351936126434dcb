package costs

import (
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is what times depend on besides a Key. Another machine, or another
// build of the program, measures anew.
type Machine struct {
	CPU    string `json:"cpu"`   // model; "unknown" where the system does not tell
	Cores  int    `json:"cores"` // usable by this process
	System string `json:"system"`
	Go     string `json:"go"`
	Build  string `json:"build"` // version and revision of the program
}

// ThisMachine describes this machine and program.
func ThisMachine() Machine {
	return Machine{
		CPU: model(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Build: build(),
	}
}

// model is the processor's name.
func model() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// build is the version and revision from which the go command built this program.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			text += " " + s.Key + "=" + s.Value
		}
	}
	return text
}

// name is a file name for a machine, so that machines with one home folder do not
// replace each other's files. A new build replaces the file of the one before.
func (m Machine) name() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n%s\n%d", m.CPU, m.System, m.Cores)
	return fmt.Sprintf("%016x.json", h.Sum64())
}
