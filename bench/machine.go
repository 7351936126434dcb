package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// unknown stands for a fact that the system does not tell.
const unknown = "unknown"

// Machine describes the machine and the program that were measured.
type Machine struct {
	CPU    string `json:"cpu"`   // model, from /proc/cpuinfo
	Cores  int    `json:"cores"` // usable by this process
	System string `json:"system"`
	Go     string `json:"go"`
	Commit string `json:"commit"` // of this program; ends in "+changes" if its tree was not clean
}

// ThisMachine describes this machine and program. Facts that the system does
// not tell read "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU: procField("/proc/cpuinfo", "model name", unknown), Cores: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Commit: commit(),
	}
}

// commit is the revision from which the go command built this program.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	rev := set["vcs.revision"]
	switch {
	case rev == "":
		return unknown
	case set["vcs.modified"] == "true":
		return rev + "+changes"
	}
	return rev
}

// procField is the first value of a key in a file of "key : value" lines;
// otherwise if there is none.
func procField(file, key, otherwise string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return otherwise
}

// resident is the process's memory in bytes; 0 where the system does not tell.
type resident struct{ now, peak int64 }

func readResident() resident {
	return resident{now: statusBytes("VmRSS"), peak: statusBytes("VmHWM")}
}

// statusBytes is a field of /proc/self/status, which states kB, in bytes.
func statusBytes(key string) int64 {
	text, ok := strings.CutSuffix(procField("/proc/self/status", key, ""), " kB")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return n << 10
}

// resetPeakResident makes the peak start from now. Where the system does not
// allow that, the peak covers the whole life of the process.
func resetPeakResident() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // see proc_pid_clear_refs(5)
}
