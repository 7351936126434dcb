package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-ml/berth/partition"
)

// TestTablesFit: no line of a table is wider than asked for, whatever the numbers. In a pipe
// a table has all columns.
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
	var tables, others, whole bytes.Buffer
	if err := WriteTable(&whole, []Result{r}, math.MaxInt); err != nil || !strings.Contains(whole.String(), "P95") || !strings.Contains(whole.String(), r.Name) {
		t.Errorf("%v in\n%s", err, whole.String())
	}
	if err := WriteTable(&tables, []Result{r}, 79); err != nil {
		t.Fatal(err)
	}
	if err := WriteScaling(&others, Scaling{Ways: []Way{way}}, 79); err != nil {
		t.Fatal(err)
	}
	latency := LatencyMS{Median: 12345.67, P99: 12345.67, Max: 123456.78}
	if err := WriteServings(&others, []Serving{{Name: r.Name, Clients: 1024, RequestsPerS: 1234567, LatencyMS: latency, SamplesPerBatch: 1024}}, 79); err != nil {
		t.Fatal(err)
	}
	generation := Generation{Name: r.Name, Prompt: 131072, PrefillMS: 12345.67, PrefillTokensPerS: 1234567, PrefillGflops: 1234.5, DecodeMS: StepMS{Median: 1234.56}, DecodeTokensPerS: 123456, DecodeGBytesPerS: 123.4, MemoryFraction: 1}
	if err := WriteGenerations(&others, []Generation{generation}, 79); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(tables.String() + others.String()) {
		prose := strings.Contains(line, ". ") || strings.Contains(line, ", commit") || strings.HasPrefix(line, "Clients ask")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 79 && !prose {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}
