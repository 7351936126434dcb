package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// tenant is what a training has on a device, for tests of what is shown of it.
func tenant(name string, job int, suspended bool, weight, activation int64) berth.TenantMemory {
	return berth.TenantMemory{Name: name, Job: job, Suspended: suspended, Floor: 10, Peak: 100, ByUsage: map[string]int64{"weight": weight, "activation": activation}}
}

// devicesWith is memory of a device with tenants.
func devicesWith(list ...berth.TenantMemory) berth.Memory {
	return berth.Memory{Devices: []berth.DeviceMemory{{ID: "cpu:0", Limit: 1 << 20, Tenants: list}}}
}

// A sample's parts are what is used, whatever is suspended, and beyond the most trainings the smallest are one.
func TestSampleAddsUp(t *testing.T) {
	list := []berth.TenantMemory{tenant("a", 1, false, 5, 7), tenant("a", 2, true, 11, 0), tenant("", 0, false, 13, 17)}
	for i := range 3 * mostTenants {
		list = append(list, tenant(fmt.Sprint("other ", i), 10+i, i%2 == 0, int64(i), 0))
	}
	m := devicesWith(list...)
	b := bounded(m)
	s := sampleOf(time.UnixMilli(7), b)
	d := s.Devices[0]
	who := int64(0)
	for _, n := range d.Who {
		who += n
	}
	if used := m.Devices[0].Used(); d.used() != used || who != used || s.used() != used || b.Devices[0].Used() != used {
		t.Errorf("%d bytes by usage, %d by training, expected %d", d.used(), who, used)
	}
	floor := int64(0)
	for _, x := range list {
		if !x.Suspended {
			floor += x.Floor
		}
	}
	if d.Floor != floor || d.Peak != 10*floor || len(b.Devices[0].Tenants) > mostTenants+2 || len(list) != len(m.Devices[0].Tenants) {
		t.Errorf("floors %d, expected %d; peaks %d; %d trainings", d.Floor, floor, d.Peak, len(b.Devices[0].Tenants))
	}
}

// Of hours, so many samples are kept as the bounds say. A spike stays, however narrow, also in few columns, and the newest sample
// is there.
func TestSamplesAreThinned(t *testing.T) {
	m := newMemory(t.Context(), nil)
	begin := time.Unix(1_800_000_000, 0)
	for i := range 10_000 {
		bytes := int64(100 + i%3)
		if i == 5005 {
			bytes = 1 << 19
		}
		m.add(begin.Add(time.Duration(i)*time.Second), devicesWith(tenant("a", 1, false, bytes, 0)), nil)
	}
	if len(m.recent) != mostRecent || len(m.older) != mostOlder {
		t.Errorf("%d recent samples and %d older ones", len(m.recent), len(m.older))
	}
	for _, columns := range []int{1, 2, 7, 100, 5000} {
		list := m.all(columns).Samples
		spikes := 0
		for i := range list {
			if list[i].used() == 1<<19 {
				spikes++
			}
			if i > 0 && list[i].At <= list[i-1].At {
				t.Fatalf("%d columns: sample %d is no later than the one before", columns, i)
			}
		}
		if last := begin.Add(9999 * time.Second).UnixMilli(); spikes != 1 || len(list) > columns+1 || list[len(list)-1].At != last {
			t.Errorf("%d columns: %d samples with %d spikes, the last of %d", columns, len(list), spikes, list[len(list)-1].At)
		}
	}
	for columns, want := range map[int]int64{5000: 25_000, 100: 25_000 + 2*7_799_000/100} { // two hours and ten minutes are kept
		if got := m.all(columns).Apart; got < want-1000 || got > want+1000 {
			t.Errorf("%d columns: samples are said to be at most %d ms apart, want %d", columns, got, want)
		}
	}
	if x, _, whole := m.since(m.version - 5); !whole || len(x.Samples) != 5 || x.Samples[4].At != m.recent[mostRecent-1].At {
		t.Errorf("the newest five: %v, %d", whole, len(x.Samples))
	}
	for _, version := range []int64{m.version - mostMissed - 1, m.version + 1, -1} {
		if _, _, whole := m.since(version); whole {
			t.Errorf("all since version %d of %d are sent", version, m.version)
		}
	}
}

// While memory is not known, nothing comes but once, and why.
func TestUnknownMemoryIsOneSample(t *testing.T) {
	m := newMemory(t.Context(), nil)
	begin := time.Unix(1_800_000_000, 0)
	for i, err := range []error{nil, errors.New("a"), errors.New("a"), errors.New("b"), errors.New("b"), nil, nil, errors.New("b")} {
		m.add(begin.Add(time.Duration(i)*time.Second), devicesWith(), err)
	}
	if x := m.all(100); m.version != 6 || len(x.Samples) != 6 || x.Problem != "b" || x.Now != nil {
		t.Errorf("version %d: %+v", m.version, x)
	}
}

// momentOf is an answer of the page, and an event.
type momentOf struct {
	Version int64
	Usages  []string
	Problem string
	Memory  bool
	Now     *berth.Memory
	Samples []struct {
		Devices []struct {
			ID                 string
			Limit, Floor, Peak int64
			Usage              []int64
			Suspended          int64
			Who                map[string]int64
			In, Out, Spilled   int64
		}
		Host struct{ Limit, Tensors, Data int64 }
	}
}

// A training's own memory is on its page: what the samples have of it by usage adds up to what is used, while it trains and
// afterwards.
func TestMemoryOfARun(t *testing.T) {
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"devices.use=cpu", "devices.threads=1", "train.epochs=1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := serve(t, Options{Folder: t.TempDir(), Memory: func(context.Context) (berth.Memory, error) { return r.Memory() }})
	var x momentOf
	p.get(t, "/api/memory?columns=100", &x)
	if x.Now == nil || len(x.Now.Devices) != 0 || x.Version != 1 {
		t.Errorf("before it trains: %+v", x)
	}
	training, err := r.Start(t.Context(), berth.TrainOptions{Dir: filepath.Join(t.TempDir(), "r")})
	if err != nil {
		t.Fatal(err)
	}
	v := p.table(t)
	s := p.stream(t, fmt.Sprintf("instance=%s&since=%d&memory=%d", v.Instance, v.Version, x.Version))
	for event := ""; ; event = s.next(&x) {
		if event != "memory" {
			continue
		}
		if err := training.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(x.Samples) > 0 && len(x.Samples[0].Devices) > 0 {
			break
		}
	}
	d, host := x.Samples[0].Devices[0], x.Samples[0].Host
	used, now := int64(0), x.Now.Devices[0]
	for _, n := range d.Usage {
		used += n
	}
	if d.ID != "cpu:0" || used == 0 || used != now.Used() || used != d.Who["this training"] || d.Usage[0] != now.Tenants[0].ByUsage["weight"] || d.Usage[0] == 0 || d.Usage[1] == 0 {
		t.Errorf("%+v is not %+v", d, now)
	}
	if d.Floor == 0 || d.Peak < d.Floor || d.Limit < d.Peak || d.In == 0 || host.Data != r.Data.Bytes() {
		t.Errorf("sample %+v, host %+v", d, host)
	}
	if err := training.Close(); err != nil {
		t.Fatal(err)
	}
	for s.next(&x) != "memory" || x.Now.Devices[0].Used() != 0 {
	}
}

// Where nobody knows the memory, the page says why, and goes on when it is known. A page that missed too much loads it anew.
func TestMemoryUnknown(t *testing.T) {
	status := func(c *client, path string) int { code, _, _ := c.do(t, c.request(t, path)); return code }
	c := serve(t, Options{Folder: t.TempDir()})
	if got := status(c, "/api/memory?columns=9"); got != http.StatusNotFound {
		t.Errorf("without memory: %d", got)
	}
	down := make(chan struct{})
	c = serve(t, Options{Folder: t.TempDir(), Memory: func(context.Context) (berth.Memory, error) {
		select {
		case <-down:
			m := devicesWith(tenant("a", 1, false, 5, 7))
			m.Devices = append(m.Devices, berth.DeviceMemory{ID: "cpu:1", Limit: 1 << 20})
			return m, nil
		default:
			return berth.Memory{}, errors.New("no daemon runs")
		}
	}})
	for _, query := range []string{"", "?columns=0", "?columns=-1", "?columns=2001", "?columns=x"} {
		if got := status(c, "/api/memory"+query); got != http.StatusBadRequest {
			t.Errorf("%q: %d", query, got)
		}
	}
	if got := status(c, "/api/events?since=0&memory=x"); got != http.StatusBadRequest {
		t.Errorf("memory=x: %d", got)
	}
	var x momentOf
	c.get(t, "/api/memory?columns=9", &x)
	if x.Problem != "no daemon runs" || x.Now != nil || len(x.Samples) != 1 || len(x.Samples[0].Devices) != 0 || len(x.Usages) != 7 {
		t.Errorf("without a daemon: %+v", x)
	}
	close(down)
	v := c.table(t)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&memory=%d", v.Instance, v.Version, 999))
	s.next(nil) // rows
	if event := s.next(&x); event != "anew" || !x.Memory {
		t.Errorf("a version that is not there yet: %s", event)
	}
	x = momentOf{}
	if event := s.next(&x); event != "memory" || x.Problem != "" || x.Now.Devices[1].Tenants == nil || // null has no map in the page
		x.Now == nil || x.Samples[0].Devices[0].Usage[0] != 5 {
		t.Errorf("with a daemon: %s %+v", event, x)
	}
}
