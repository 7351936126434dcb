package ui

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
)

// checkText refuses what is no text format of Prometheus: each line is a comment or a value, the values of a metric are together
// and behind its type, and none comes twice.
func checkText(t *testing.T, text string) {
	t.Helper()
	line := regexp.MustCompile(`^([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? -?[0-9.e+-]+$`)
	kind := regexp.MustCompile(`^# TYPE ([a-z_]+) (counter|gauge)$`)
	seen, now := map[string]bool{}, ""
	list := strings.Split(text, "\n")
	if list[len(list)-1] != "" {
		t.Error("the last line has no end")
	}
	for i, l := range list[:len(list)-1] {
		if help, ok := strings.CutPrefix(l, "# HELP "); ok {
			now, _, _ = strings.Cut(help, " ")
			if seen[now] {
				t.Errorf("line %d: %s comes again", i+1, now)
			}
			seen[now] = true
			continue
		}
		if m := kind.FindStringSubmatch(l); m != nil {
			if m[1] != now || (m[2] == "counter") != strings.HasSuffix(now, "_total") {
				t.Errorf("line %d: %s", i+1, l)
			}
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil || m[1] != now || seen[m[1]+m[2]+" "] {
			t.Errorf("line %d: %s", i+1, l)
			continue
		}
		seen[m[1]+m[2]+" "] = true
	}
}

// TestMetrics: the numbers are those of the table and of memory, in the text format of Prometheus, for whoever has the token.
func TestMetrics(t *testing.T) {
	loss := 0.25
	now := time.Now()
	list := []queued.Record{
		{ID: 1, Name: "a\"b\\\n", State: "waiting", Step: 3, Steps: 9, Loss: &loss, Since: now.Add(-time.Hour)},
		{ID: 2, Name: "two", State: "running", Step: 4, Steps: 9},
		{ID: 3, Name: "three", State: "finished", Step: 9, Steps: 9, Loss: &loss},
		{ID: 4, Name: "four", State: "finished", Step: 9, Steps: 9},
	}
	m := devicesWith(tenant("two", 2, false, 5, 7), tenant("a", 1, true, 11, 0))
	m.Devices[0].Moves = berth.MemoryMoves{In: 3, Out: 2, Spilled: 1}
	m.Host.Data = 77
	c := serve(t, Options{Folder: copied(t, "r"), Jobs: func(context.Context) []queued.Record { return list }, Memory: func(context.Context) (berth.Memory, error) { return m, nil }})
	status, text, header := c.do(t, c.request(t, "/metrics"))
	if status != http.StatusOK || header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("%d %s %s", status, header.Get("Content-Type"), text)
	}
	checkText(t, text)
	for _, want := range []string{
		`jobs{state="waiting"} 1`, `jobs{state="running"} 1`, `jobs{state="paused"} 0`, `jobs{state="finished"} 2`, `runs{state="finished"} 1`,
		`job_steps{job="1",name="a\"b\\\n"} 3`, `job_planned_steps{job="2",name="two"} 9`, `job_loss{job="1",name="a\"b\\\n"} 0.25`,
		`device_memory_bytes{device="cpu:0",usage="weight"} 16`, `device_memory_bytes{device="cpu:0",usage="activation"} 7`,
		`device_memory_suspended_bytes{device="cpu:0"} 11`, fmt.Sprintf(`device_memory_limit_bytes{device="cpu:0"} %g`, float64(1<<20)),
		`device_copied_in_bytes_total{device="cpu:0"} 3`, `device_spilled_bytes_total{device="cpu:0"} 1`, `host_memory_bytes{usage="data"} 77`,
	} {
		if !strings.Contains(text, "\nberth_"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	waited := regexp.MustCompile(`\nberth_job_waiting_seconds\{job="1",name="[^ ]*"\} 36\d\d(\.\d+)?\n`)
	if !waited.MatchString(text) || strings.Contains(text, `job="3"`) {
		t.Error("the job that waits has not waited for an hour, or one that is finished has numbers")
	}
	if t.Failed() {
		t.Log(text)
	}
	r := c.request(t, "/metrics")
	r.Header.Del("Authorization")
	if status, _, _ := c.do(t, r); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	r = c.request(t, "/metrics")
	r.Host = "evil.example"
	if status, _, _ := c.do(t, r); status != http.StatusForbidden {
		t.Errorf("by another name: %d", status)
	}
}

// TestMetricsOfUnknownJobs: while the queue has not answered, no numbers of jobs are told, as the table has no jobs. A queue
// without jobs has zeros.
func TestMetricsOfUnknownJobs(t *testing.T) {
	for name, x := range map[string]struct {
		list  []queued.Record
		zeros bool
	}{
		"not known": {nil, false},
		"none":      {[]queued.Record{}, true},
	} {
		c := serve(t, Options{Folder: copied(t, "r"), Jobs: func(context.Context) []queued.Record { return x.list }})
		_, text, _ := c.do(t, c.request(t, "/metrics"))
		checkText(t, text)
		if zeros := strings.Contains(text, `berth_jobs{state="running"} 0`); zeros != x.zeros || !strings.Contains(text, `berth_runs{state="finished"} 1`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
