package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// TestHostMemoryIsAsPredicted compares the host memory that a training announces with
// the memory and the spill file that it measures, at several limits and bounds. A save
// takes as much as is announced, less the tensors that have left their device when it
// begins: their copies on the host are saved. The numbers do not grow with the steps.
func TestHostMemoryIsAsPredicted(t *testing.T) {
	testall.Long(t)
	cnn := []string{"digits-cnn", "--set", "train.microbatches=4", "--set", "train.batch=512"}
	gpt := []string{"shakespeare", "--set", "train.microbatches=2"}
	cases := []struct {
		config        []string
		limits, hosts []string
	}{
		{cnn, []string{"40%", "60%"}, []string{"1MiB", "64MiB"}},
		{gpt, []string{"2304KiB", "50%"}, []string{"1MiB", "64MiB"}},
	}
	for i, c := range cases {
		for j, limit := range c.limits {
			for k, host := range c.hosts {
				if !testall.Wanted() && (i > 0 || j > 0 || k > 0) {
					continue
				}
				args := append(c.config, "--device-memory", limit, "--host-memory", host)
				leaves, others, few := hostMemoryOf(t, 2, args)
				_, _, more := hostMemoryOf(t, 10, args)
				if few.FileBytes != more.FileBytes || few.FilePeakBytes > few.FileBytes {
					t.Errorf("%v: the file has %d bytes after 2 steps, of which %d were used, and %d after 10", args, few.FileBytes, few.FilePeakBytes, more.FileBytes)
				}
				for _, r := range []hostMemory{few, more} {
					took, least, most := float64(r.PeakBytes+r.FilePeakBytes), 0.93*(leaves+min(others, float64(r.saved))), 1.07*(leaves+others)
					if r.FilePeakBytes > 0 { // memory may be idle, in sizes that nothing needs now
						most += float64(r.BoundBytes)
					}
					if took < least || took > most || r.PeakBytes > r.BoundBytes {
						t.Errorf("%v: %.0f bytes and up to %.0f were announced, and %.0f were taken: %+v", args, leaves, others, took, r)
					}
				}
			}
		}
	}
}

// hostMemory is of a report.
type hostMemory struct {
	BoundBytes    int64 `json:"bound_bytes"`
	PeakBytes     int64 `json:"peak_bytes"`
	FileBytes     int64 `json:"file_bytes"`
	FilePeakBytes int64 `json:"file_peak_bytes"`
	saved         int64 // bytes that the save copied from the device
}

var announcedHost = regexp.MustCompile(`devices take ([0-9.]+) (KiB|MiB) at once, and batches and saves up to ([0-9.]+) (KiB|MiB):`)

// hostMemoryOf trains some steps and saves once. leaves and others are the bytes that are announced.
func hostMemoryOf(t *testing.T, steps int, args []string) (leaves, others float64, r hostMemory) {
	t.Helper()
	dir := t.TempDir()
	c := exec.Command("trainer", append([]string{"train", "--run", "r", "--max-steps", strconv.Itoa(steps)}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := announcedHost.FindStringSubmatch(string(out))
	if m == nil {
		t.Fatalf("nothing is announced: %s", out)
	}
	unit := map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20}
	for i, to := range []*float64{&leaves, &others} {
		n, err := strconv.ParseFloat(m[1+2*i], 64)
		if err != nil {
			t.Fatal(err)
		}
		*to = n * unit[m[2+2*i]]
	}
	b, err := os.ReadFile(filepath.Join(dir, "r", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		HostMemory hostMemory `json:"host_memory"`
		Ledger     struct {
			ByReason struct{ Checkpoint int64 } `json:"by_reason"`
		} `json:"ledger"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	report.HostMemory.saved = report.Ledger.ByReason.Checkpoint
	return leaves, others, report.HostMemory
}
