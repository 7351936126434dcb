package order

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHostBytes: jobs with data in common count it once.
func TestHostBytes(t *testing.T) {
	all, data := HostBytes(Job{Host: 1, Data: 10, DataID: "a"}, Job{Host: 2, Data: 10, DataID: "a"}, Job{Host: 4, Data: 20, DataID: "b"})
	if all != 37 || data != 30 {
		t.Errorf("%d bytes, %d of data", all, data)
	}
}

// takes is a job with host memory.
func takes(n int, host int64, open bool) Job { return Job{Number: n, Host: host, Open: open} }

// TestGrant has a case for each rule: who has 10 bytes, and for whom the others wait.
func TestGrant(t *testing.T) {
	for name, c := range map[string]struct {
		seated []Job
		has    string
		waits  string
	}{
		"all fit":                               {[]Job{takes(1, 5, false), takes(2, 5, false)}, "1 2", ""},
		"one alone can":                         {[]Job{takes(1, 50, false), takes(2, 5, false)}, "1", "2 behind 1"},
		"none begins before one that waits":     {[]Job{takes(1, 5, true), takes(2, 6, false), takes(3, 1, false)}, "1", "2 behind 1, 3 for 2"},
		"but one that is open goes on":          {[]Job{takes(1, 5, true), takes(2, 6, false), takes(3, 1, true)}, "1 3", "2 behind 1"},
		"whoever has it now":                    {[]Job{takes(1, 6, false), takes(2, 6, true), takes(3, 1, false)}, "1", "3 for 2"},
		"data in common is there once":          {[]Job{{Number: 1, Data: 8, DataID: "a"}, {Number: 2, Host: 2, Data: 8, DataID: "a"}}, "1 2", ""},
		"other data is not, whoever else waits": {[]Job{{Number: 1, Data: 8, DataID: "a"}, {Number: 2, Data: 8, DataID: "b"}}, "1", "2 behind 1"},
	} {
		g := Grant(10, c.seated)
		has, waits := "", ""
		for _, j := range g.Has {
			has += fmt.Sprint(" ", j.Number)
		}
		for _, w := range g.Waits {
			if w.For != nil {
				waits += fmt.Sprintf(", %d for %d", w.Job.Number, w.For.Number)
				continue
			}
			for _, j := range w.Behind {
				waits += fmt.Sprintf(", %d behind %d", w.Job.Number, j.Number)
			}
		}
		if has != " "+c.has || waits != "" && waits[2:] != c.waits || waits == "" && c.waits != "" {
			t.Errorf("%s:%s have it, and%s wait", name, has, waits)
		}
	}
}

// TestClose: as few are closed as have to be, the last first, and what stays fits.
func TestClose(t *testing.T) {
	if got := Close(10, []Job{takes(1, 4, true)}, []Job{takes(2, 3, true), takes(3, 4, true), takes(4, 3, true)}); !reflect.DeepEqual(got, []int{1}) {
		t.Errorf("closed: %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		host := int64(rapid.IntRange(0, 20).Draw(t, "host memory"))
		data := map[string]int64{"a": int64(rapid.IntRange(0, 4).Draw(t, "data a")), "b": int64(rapid.IntRange(0, 4).Draw(t, "data b"))}
		draw := rapid.Custom(func(t *rapid.T) Job {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of")
			return Job{Host: int64(rapid.IntRange(0, 6).Draw(t, "host")), Data: data[id], DataID: id}
		})
		stay, rest := rapid.SliceOfN(draw, 1, 4).Draw(t, "stay"), rapid.SliceOfN(draw, 0, 6).Draw(t, "rest")
		if !Together(host, stay...) {
			return
		}
		closed := map[int]bool{}
		for _, i := range Close(host, stay, rest) {
			closed[i] = true
		}
		for i := range rest {
			if !closed[i] {
				stay = append(stay, rest[i])
			}
		}
		if !Together(host, stay...) {
			t.Fatalf("%v do not fit", stay)
		}
		for i := range rest {
			if closed[i] && Together(host, append(stay, rest[i])...) {
				t.Fatalf("%v fits, too", rest[i])
			}
		}
	})
}

// TestForecastOfHostMemory: jobs that do not fit beside each other end one after the other, on however many devices.
func TestForecastOfHostMemory(t *testing.T) {
	ends := func(host int64, jobs ...Job) (ends []time.Duration) {
		for i := range jobs {
			jobs[i].Number, jobs[i].Needs, jobs[i].Length = i+1, []Need{{"cpu", 1}}, jobs[i].Left
		}
		for _, s := range Forecast(jobs, cpus(3), host, len(jobs)) {
			ends = append(ends, s.Ends)
		}
		return ends
	}
	half := func(left time.Duration) Job { return Job{Host: 6, Left: left} }
	running := half(9)
	running.Running, running.Open, running.On = true, true, []string{"cpu:1"}
	shared := func(left time.Duration) Job { return Job{Data: 6, DataID: "a", Left: left} }
	urgent := half(2)
	urgent.Priority = 1
	for name, c := range map[string]struct{ got, want []time.Duration }{
		"without a limit":       {ends(math.MaxInt64, half(5), half(6), half(7)), []time.Duration{5, 6, 7}},
		"one after the other":   {ends(10, half(5), half(6), half(7)), []time.Duration{5, 11, 18}},
		"a third fits, too":     {ends(10, half(5), Job{Host: 4, Left: 3}), []time.Duration{5, 3}},
		"with data in common":   {ends(10, shared(5), shared(6)), []time.Duration{5, 6}},
		"the one in front":      {ends(10, running, urgent), []time.Duration{11, 2}},
		"larger than all of it": {ends(3, half(5), half(6)), []time.Duration{5, 11}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: they end at %v, expected %v", name, c.got, c.want)
		}
	}
}
