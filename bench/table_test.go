package bench

import (
	"bytes"
	"encoding/json"

	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	r := Result{Name: "gpt-nano", Steps: 7, StepMS: StepMS{Median: 12.345}, TokensPerS: 768, PeakFraction: 0.5, Threads: 1, Devices: []string{"cpu:0"}}
	var text bytes.Buffer
	if err := WriteTable(&text, []Result{r, {Name: "mlp"}}, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpt-nano", "12.3 ms", "768", "50%", "1 thread on cpu:0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "SPILLED") {
		t.Errorf("moves are told though there are none:\n%s", &text)
	}
	text.Reset()
	r.Memory = []DeviceMemory{{Limit: 3 << 20, Peak: 5 << 20, Floor: 1 << 20}, {Limit: 4 << 20, Peak: 5 << 20, Floor: 1 << 20}}
	r.Copies = Copies{LoadedBytes: 6 << 20, SpilledBytes: 13 << 19, HiddenMS: 1.25, ExposedMS: 0.75}
	if err := WriteTable(&text, []Result{{Name: "mlp"}, r}, 0); err != nil {
		t.Fatal(err)
	}
	_, moves, _ := strings.Cut(text.String(), "EXPOSED")
	if got := strings.Join(strings.Fields(moves), " "); got != "gpt-nano 10.0 MiB 7.0 MiB 2.0 MiB 6.0 MiB 6.5 MiB 1.25 ms 750 µs" {
		t.Errorf("moves are %q in\n%s", got, &text)
	}
	text.Reset()
	r.Precision = bf16Name
	if err := WriteTable(&text, []Result{r}, 0); err != nil || !strings.Contains(text.String(), " in bf16, ") {
		t.Errorf("%v, no format in\n%s", err, &text)
	}
	text.Reset()
	if err := WriteTable(&text, nil, 0); err != nil || text.Len() > 0 {
		t.Errorf("%v and %q for no results", err, &text)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"step_ms":{"median":12.345`, `"allocs_per_step":0`, `"arena_peak_bytes":`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

func TestProfileOutput(t *testing.T) {
	r := Result{Name: "mlp", StepMS: StepMS{Median: 2}, Profile: []KernelTime{{Kind: "matmul+relu", Calls: 3, MS: 1.5, Share: 0.75}}}
	var text bytes.Buffer
	if err := WriteProfile(&text, r, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mlp: 2.00 ms a step", "matmul+relu", "1.50 ms", "75.0%"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	for _, profile := range []bool{true, false} {
		if !profile {
			r.Profile = nil
		}
		b, err := json.Marshal(r)
		if err != nil || strings.Contains(string(b), `"profile":[{"kind":"matmul+relu"`) != profile {
			t.Errorf("profile %v: %v, %s", profile, err, b)
		}
	}
}
