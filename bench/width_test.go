package bench

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/partition"
)

// TestTablesFit: no line of a table is wider than columns.Width, whatever the numbers.
func TestTablesFit(t *testing.T) {
	step := StepMS{Median: 123456.78, P95: 123456.78, Min: 123456.78}
	r := Result{
		Name: "a-workload-of-a-long-name", Steps: 1_000_000, StepMS: step, SamplesPerS: 12345678, TokensPerS: 1234567890, Gflops: 12345.6, PeakFraction: 1,
		AllocsPerStep: 123456.7, PeakResidentBytes: 1 << 40, Memory: []DeviceMemory{{Peak: 1 << 40, Limit: 1 << 40, Floor: 1 << 40}},
		Copies: Copies{LoadedBytes: 1 << 40, SpilledBytes: 1 << 40, HiddenMS: 123456.78, ExposedMS: 123456.78},
	}
	way := Way{
		Devices: 1000, Schedule: "interleaved", Stages: 1000, Replicas: 1000, Shard: partition.ShardOptimizer, StepMS: 123456.78, PredictedMS: 123456.78,
		SpeedUp: 123.45, PredictedSpeedUp: 123.45, KernelMS: 123456.78, BesideMS: 123456.78, PeerBytes: 1 << 40, BubbleMeasured: 1, BubbleSimulated: 1,
	}
	var tables, scaling bytes.Buffer
	if err := WriteTable(&tables, []Result{r}); err != nil {
		t.Fatal(err)
	}
	if err := WriteScaling(&scaling, Scaling{Ways: []Way{way}}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(tables.String() + scaling.String()) {
		prose := strings.HasPrefix(line, "Moved in a step")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns.Width && !prose {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}
