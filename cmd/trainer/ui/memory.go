package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/device"
)

// The bounds of what is remembered of memory.
const (
	mostRecent   = 600              // samples a second apart: ten minutes
	olderEvery   = 10 * time.Second // of older samples, that with the most memory used in so long stays
	mostOlder    = 720              // two hours
	mostTenants  = 16               // of a device in a sample, the largest; the others are one
	mostMissed   = 60               // samples that a stream sends at once; beyond, the page loads them anew
	lateLook     = 5 * time.Second  // from a look to the next, at most, while a page is open
	devicePage   = 64 << 10         // bytes of an answer for each device
	leastColumns = 16
)

// usages are the names of usages in their order.
var usages = func() (list []string) {
	for u := range device.NumUsages {
		list = append(list, device.Usage(u).String())
	}
	return list
}()

// memory remembers who had memory, a sample a second while somebody watches.
type memory struct {
	ask   func(context.Context) (berth.Memory, error) // nil: nobody knows
	pulse *pulse

	mu      sync.Mutex
	version int64        // counts the samples
	now     berth.Memory // by the newest sample
	problem error        // why that is not known; nil: it is
	recent  []sample     // the newest last
	older   []sample
	news    chan struct{} // closed at the next sample
}

// sample is who had memory at one instant, in bytes. One without devices was not to be had.
type sample struct {
	At      int64          `json:"at"` // Unix time in ms
	Devices []deviceSample `json:"devices"`
	Host    hostSample     `json:"host"`
}

// deviceSample is a device's part of a sample. Used memory is the sum of Usage and Suspended, and of Who.
type deviceSample struct {
	ID        string           `json:"id"`
	Limit     int64            `json:"limit"`
	Floor     int64            `json:"floor"` // reserved for the trainings that are not suspended
	Peak      int64            `json:"peak"`  // that these take by their plans
	Usage     []int64          `json:"usage"` // of these, in the order of usages
	Suspended int64            `json:"suspended,omitempty"`
	Who       map[string]int64 `json:"who,omitempty"`
	In        int64            `json:"in"` // bytes moved so far
	Out       int64            `json:"out"`
	Spilled   int64            `json:"spilled"`
}

type hostSample struct {
	Limit   int64 `json:"limit"`
	Tensors int64 `json:"tensors"`
	Data    int64 `json:"data"`
	File    int64 `json:"file,omitempty"`
}

func newMemory(life context.Context, ask func(context.Context) (berth.Memory, error)) *memory {
	m := &memory{ask: ask, news: make(chan struct{})}
	m.pulse = newPulse(life, m.look)
	return m
}

// fresh looks, unless the last look is younger than a second.
func (m *memory) fresh(ctx context.Context) {
	if m.ask != nil {
		m.pulse.fresh(ctx)
	}
}

// look takes a sample.
func (m *memory) look(ctx context.Context) (whole bool) {
	now, err := m.ask(ctx)
	if ctx.Err() != nil {
		return false
	}
	m.add(time.Now(), now, err)
	return true
}

// add remembers a sample. Of those that were not to be had for one reason, the first stands for all.
func (m *memory) add(at time.Time, now berth.Memory, err error) {
	now = bounded(now)
	s := sampleOf(at, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && m.problem != nil && err.Error() == m.problem.Error() {
		return
	}
	m.now, m.problem = now, err
	m.version++
	m.recent = append(m.recent, s)
	if len(m.recent) > mostRecent {
		m.age(m.recent[0])
		m.recent = slices.Delete(m.recent, 0, 1)
	}
	close(m.news)
	m.news = make(chan struct{})
}

// age remembers a sample that is not recent any more, unless it is no larger than another of its time.
func (m *memory) age(s sample) {
	slot := func(s *sample) int64 { return s.At / olderEvery.Milliseconds() }
	n := len(m.older)
	switch {
	case n == 0 || slot(&m.older[n-1]) != slot(&s):
		m.older = append(m.older, s)
	case s.used() > m.older[n-1].used():
		m.older[n-1] = s
	}
	if len(m.older) > mostOlder {
		m.older = slices.Delete(m.older, 0, 1)
	}
}

// bounded is memory with at most so many tenants of each device.
func bounded(m berth.Memory) berth.Memory {
	m.Devices = slices.Clone(m.Devices)
	for i := range m.Devices {
		d := &m.Devices[i]
		d.Tenants = slices.Clone(d.Tenants)
		slices.SortStableFunc(d.Tenants, func(a, b berth.TenantMemory) int { return cmp.Compare(b.Used(), a.Used()) })
		for _, state := range []bool{false, true} {
			d.Tenants = merged(d.Tenants, state)
		}
	}
	return m
}

// merged has those beyond the most that are suspended, or are not, as one.
func merged(list []berth.TenantMemory, suspended bool) []berth.TenantMemory {
	kept := []berth.TenantMemory{}
	rest, n := berth.TenantMemory{Suspended: suspended, ByUsage: map[string]int64{}}, 0
	for i, t := range list {
		if i < mostTenants || t.Suspended != suspended {
			kept = append(kept, t)
			continue
		}
		n++
		rest.Floor, rest.Peak = rest.Floor+t.Floor, rest.Peak+t.Peak
		rest.Moves.In, rest.Moves.Out, rest.Moves.Spilled = rest.Moves.In+t.Moves.In, rest.Moves.Out+t.Moves.Out, rest.Moves.Spilled+t.Moves.Spilled
		for u, b := range t.ByUsage {
			rest.ByUsage[u] += b
		}
	}
	if n > 0 {
		rest.Name = fmt.Sprintf("%d others", n)
		kept = append(kept, rest)
	}
	return kept
}

// whoOf names a tenant for people.
func whoOf(t *berth.TenantMemory) string {
	if t.Job != 0 {
		return fmt.Sprintf("%d %s", t.Job, t.Name)
	}
	return cmp.Or(t.Name, "this training")
}

// sampleOf is a sample of bounded memory.
func sampleOf(at time.Time, m berth.Memory) sample {
	s := sample{At: at.UnixMilli(), Devices: []deviceSample{}, Host: hostSample(m.Host)}
	for i := range m.Devices {
		d := &m.Devices[i]
		x := deviceSample{
			ID: d.ID, Limit: d.Limit, Usage: make([]int64, len(usages)), Who: map[string]int64{},
			In: d.Moves.In, Out: d.Moves.Out, Spilled: d.Moves.Spilled,
		}
		for j := range d.Tenants {
			t := &d.Tenants[j]
			if n := t.Used(); n > 0 {
				x.Who[whoOf(t)] += n
			}
			if t.Suspended {
				x.Suspended += t.Used()
				continue
			}
			x.Floor, x.Peak = x.Floor+t.Floor, x.Peak+t.Peak
			for u, name := range usages {
				x.Usage[u] += t.ByUsage[name]
			}
		}
		s.Devices = append(s.Devices, x)
	}
	return s
}

// used is what is used of all devices.
func (s *sample) used() (bytes int64) {
	for i := range s.Devices {
		bytes += s.Devices[i].used()
	}
	return bytes
}

func (d *deviceSample) used() int64 {
	bytes := d.Suspended
	for _, n := range d.Usage {
		bytes += n
	}
	return bytes
}

// moment is a sample as a stream sends it, with who has what.
type moment struct {
	Version int64         `json:"version"` // of the newest sample
	Samples []sample      `json:"samples"`
	Now     *berth.Memory `json:"now"` // with the newest of them; null where it is not known
	Problem string        `json:"problem,omitempty"`
	Apart   int64         `json:"apart,omitempty"` // ms from a sample to the next, at most, unless nobody looked between them; 0: as a stream has them
}

// since are the samples after a version. whole is false where they are too many to send one by one.
func (m *memory) since(version int64) (x moment, news <-chan struct{}, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.version - version
	x = m.newest()
	if whole = n >= 0 && n <= int64(min(mostMissed, len(m.recent))); whole {
		x.Samples = slices.Clone(m.recent[len(m.recent)-int(n):])
	}
	return x, m.news, whole
}

// newest is who has memory now, without samples. The caller holds the lock.
func (m *memory) newest() moment {
	x := moment{Version: m.version}
	switch {
	case m.problem != nil:
		x.Problem = m.problem.Error()
	case m.version > 0:
		now := m.now
		x.Now = &now
	}
	return x
}

// all are the samples of which each stands for a column of a picture: that with the most memory used there. The newest is the last.
func (m *memory) all(columns int) moment {
	m.mu.Lock()
	list, aged, x := append(slices.Clone(m.older), m.recent...), len(m.older) > 0, m.newest()
	m.mu.Unlock()
	x.Apart = lateLook.Milliseconds()
	if aged { // the largest of two such times may be at their ends
		x.Apart += 2 * olderEvery.Milliseconds()
	}
	if n := len(list); n > columns { // as of two columns
		x.Apart += 2 * (list[n-1].At - list[0].At) / int64(columns)
	}
	x.Samples = thinned(list, columns)
	return x
}

// thinned has at most so many samples and one more.
func thinned(list []sample, columns int) []sample {
	if len(list) <= columns {
		return append([]sample{}, list...)
	}
	first, last := list[0].At, list[len(list)-1].At
	column := func(s *sample) int64 { return (s.At - first) * int64(columns) / (last - first + 1) }
	var kept []sample
	for i := range list {
		s := &list[i]
		switch n := len(kept); {
		case n == 0 || column(&kept[n-1]) != column(s):
			kept = append(kept, *s)
		case s.used() > kept[n-1].used():
			kept[n-1] = *s
		}
	}
	if kept[len(kept)-1].At != last {
		kept = append(kept, list[len(list)-1])
	}
	return kept
}

// memoryPage answers GET /api/memory?columns=N: who has memory, and who had it, in samples for so many columns of a picture.
func (s *Server) memoryPage(ctx context.Context, r *http.Request) (any, error) {
	if s.memory.ask == nil {
		return nil, refused(http.StatusNotFound, "this server does not know who has memory")
	}
	columns, err := strconv.Atoi(r.URL.Query().Get("columns"))
	if err != nil || columns < 1 || columns > mostColumns {
		return nil, refused(http.StatusBadRequest, "columns: give a number from 1 to %d", mostColumns)
	}
	s.memory.fresh(ctx)
	p := struct {
		moment
		Usages []string `json:"usages"`
	}{Usages: usages}
	for ; ; columns /= 2 {
		p.moment = s.memory.all(columns)
		text, err := json.Marshal(p.Samples)
		devices := 1
		if n := len(p.Samples); n > 0 {
			devices += len(p.Samples[n-1].Devices)
		}
		if err != nil || len(text) <= devices*devicePage || columns <= leastColumns {
			return p, err
		}
	}
}

// memoryStream sends samples to a stream that asks for them. nil sends none.
type memoryStream struct {
	of      *memory
	version int64
}

// follow is a stream of samples from the version that a request names, and keeps the samples coming until end is called, also where
// it names none: who looks at memory later wants to see what was.
func (m *memory) follow(q url.Values) (x *memoryStream, end func(), err error) {
	if m.ask == nil {
		return nil, func() {}, nil
	}
	if q.Has("memory") {
		x = &memoryStream{of: m}
		if x.version, err = strconv.ParseInt(q.Get("memory"), 10, 64); err != nil {
			return nil, nil, refused(http.StatusBadRequest, "memory: give a version")
		}
	}
	return x, m.pulse.watch(), nil
}

// send sends what has come, and gives the channel that is closed when more has.
func (x *memoryStream) send(out *stream) (news <-chan struct{}) {
	if x == nil {
		return nil
	}
	now, news, whole := x.of.since(x.version)
	switch {
	case !whole:
		out.send("anew", map[string]bool{"memory": true})
	case now.Version > x.version:
		out.send("memory", now)
	}
	x.version = now.Version
	return news
}
