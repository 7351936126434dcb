package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// model is weights on the devices.
type model struct {
	trained *berth.Trained
	service *berth.Service
	users   sync.WaitGroup // requests; it is added to while the model is the newest only
	lost    []device.ID    // whose failure was told; models.mu guards it
}

// models is the devices, and the weights that requests are answered with. Other weights
// take their place between two requests: those under way end with the weights with which
// they began.
type models struct {
	opt     OpenOptions
	counted *metrics
	ending  atomic.Bool     // no new requests are wanted
	changes chan struct{}   // has an element while weights are changed
	all     []device.ID     // the devices that were opened first
	life    context.Context // ended by close
	die     context.CancelFunc

	mu      sync.Mutex
	devices *berth.Devices
	newest  *model              // nil while there is none
	changed chan struct{}       // closed once newest or broken is another
	broken  error               // why there is no model, where that may last; nil while one is made
	out     map[device.ID]error // devices that the newest model does not use since they failed, and why
	tries   map[device.ID]int   // failures of devices while other weights were loaded, since some were loaded there
	again   time.Time           // when it is loaded again, where there is none
	closed  bool
	repairs sync.WaitGroup

	// Of the repair under way: the pause before the model is loaded again, and when the last
	// repair ended.
	pause    time.Duration
	repaired time.Time

	tops map[string]int // of pixels, by the names of adapters, and "" where there are none: see pixelTop; read only

	told string // which devices answer; "" once they are others without a load
}

// openModels opens the devices and loads the weights.
func openModels(ctx context.Context, o OpenOptions, counted *metrics) (*models, error) {
	x := &models{opt: o, counted: counted, changes: make(chan struct{}, 1), changed: make(chan struct{}), out: map[device.ID]error{}, tries: map[device.ID]int{}}
	x.life, x.die = context.WithCancel(context.Background())
	var err error
	if x.devices, err = berth.OpenDevices(whole(o.Config.Devices), berth.DevicesOptions{Faults: o.Faults}); err != nil {
		return nil, err
	}
	x.all = x.devices.Usable()
	if x.newest, err = x.load(ctx, x.asked()); err != nil {
		return nil, errors.Join(err, x.devices.Close())
	}
	x.tops = map[string]int{"": pixelTop(o.Config.Data.Source)}
	for _, a := range o.Adapters {
		x.tops[a.Name] = pixelTop(a.Config.Data.Source)
	}
	x.told = copiesText(x.copies())
	return x, nil
}

// whole is devices without limits of memory by percentage: those are of what a model's plan takes, and
// bound each model that is loaded.
func whole(d configs.Devices) configs.Devices {
	if d.Memory.Percent > 0 {
		d.Memory = configs.Memory{}
	}
	each := d.Each
	d.Each = nil
	for _, e := range each {
		if e.Memory.Percent > 0 {
			e.Memory = configs.Memory{}
		}
		d.Each = append(d.Each, e)
	}
	return d
}

// choice says which weights to answer with.
type choice struct {
	weights  berth.Weights
	adapters []berth.Adapter // in place of weights, where the server has adapters
}

// asked is the choice of the options.
func (x *models) asked() choice { return choice{x.opt.Weights, x.opt.Adapters} }

// those is the choice of the checkpoints that a model has.
func (x *models) those(m *model) choice {
	c := choice{x.opt.Weights, slices.Clone(x.opt.Adapters)}
	only := func(w *berth.Weights, u berth.Used) { w.Best, w.Last, w.ID = false, false, u.ID }
	for i := range c.adapters {
		only(&c.adapters[i].Weights, m.service.Parts()[1+i].Used)
	}
	only(&c.weights, m.service.Used())
	return c
}

// keeping is a choice in which some adapters, by index, keep the weights that a model has.
func (x *models) keeping(ctx context.Context, c choice, m *model, kept []int) (choice, error) {
	c.adapters = slices.Clone(c.adapters)
	for _, i := range kept {
		k, err := m.service.Keep(ctx, c.adapters[i].Name)
		if err != nil {
			return c, err
		}
		c.adapters[i].Kept = k
	}
	return c, nil
}

// load copies weights to the devices, but for some.
func (x *models) load(ctx context.Context, w choice, without ...device.ID) (*model, error) {
	o := berth.TrainedOptions{Devices: x.devices, Stored: x.opt.Stored}
	if without != nil {
		o.Use = x.rest(without)
	}
	open := func() (*berth.Trained, error) { return berth.OpenTrained(ctx, x.opt.Config, w.weights, o) }
	if w.adapters != nil {
		open = func() (*berth.Trained, error) { return berth.OpenAdapters(ctx, w.adapters, o) }
	}
	t, err := open()
	if err != nil {
		x.counted.failedLoad(err)
		return nil, err
	}
	s, err := t.Serve(ctx, x.opt.Service)
	if err != nil {
		x.counted.failedLoad(err)
		return nil, errors.Join(err, t.Close())
	}
	x.counted.begin(s)
	return &model{trained: t, service: s}, nil
}

// loadOnRest is load, and goes on without devices that are lost meanwhile, while others are left. On a device one of whose
// operations has merely failed, the weights in use still answer: a repair, which has none, goes on without it at once,
// and others do after mostTries.
func (x *models) loadOnRest(ctx context.Context, w choice, repairs bool) (*model, error) {
	var failed, without []device.ID
	for {
		m, err := x.load(ctx, w, without...)
		loss, lost := berth.LossOf(err)
		id := loss.Device
		usable := slices.Contains(x.devices.Usable(), id)
		if !lost || usable && !repairs && !x.gaveUp(err) || slices.Contains(failed, id) {
			return m, err
		}
		failed = append(failed, id)
		if usable {
			without = append(without, id)
		}
		rest := x.rest(without)
		if len(rest) == 0 {
			return nil, err
		}
		x.mu.Lock()
		x.out[id] = err
		x.mu.Unlock()
		x.opt.Log(fmt.Sprintf("%s; going on without %s, on %s; %s", loss.Cause, id, idsText(rest), comesBack(id, usable)))
	}
}

// comesBack says when a device that has failed answers again; usable says that it is not lost.
func comesBack(id device.ID, usable bool) string {
	if usable {
		return fmt.Sprintf("%s answers again after POST /reload, or with the next newer checkpoint", id)
	}
	return fmt.Sprintf("%s is lost: it answers again after a restart, or once all devices are opened anew", id)
}

// mostTries is how often weights are loaded on a device where that fails.
const mostTries = 3

// gaveUp counts the failure of a device while weights were loaded beside those in use. It reports whether they are not tried
// there any more.
func (x *models) gaveUp(err error) bool {
	if lacksMemory(err) {
		return false
	}
	loss, _ := berth.LossOf(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tries[loss.Device]++
	return x.tries[loss.Device] >= mostTries
}

// triesAgain reports whether an error of loading is the failure of a device that another try may not meet.
func (x *models) triesAgain(err error) bool {
	loss, lost := berth.LossOf(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	return lost && !lacksMemory(err) && x.tries[loss.Device] < mostTries
}

// lacksMemory reports whether a device has too little memory. It will be too little again.
func lacksMemory(err error) bool { return errors.Is(err, device.ErrOutOfMemory) }

// rest are the devices that are not lost, but for some.
func (x *models) rest(without []device.ID) []device.ID {
	return slices.DeleteFunc(x.devices.Usable(), func(id device.ID) bool { return slices.Contains(without, id) })
}

// groups is what the devices have done with the newest weights. Those that it does without since they failed are among them.
func (x *models) groups() (list []berth.ServiceGroupStats) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.newest != nil {
		list = x.newest.service.Stats().Groups
	}
	for _, id := range slices.Sorted(maps.Keys(x.out)) {
		if !slices.ContainsFunc(list, func(g berth.ServiceGroupStats) bool { return slices.Contains(g.Devices, id) }) {
			list = append(list, berth.ServiceGroupStats{Devices: []device.ID{id}, Lost: x.out[id]})
		}
	}
	return list
}

// usable lists the devices that are not lost.
func (x *models) usable() []device.ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.devices.Usable()
}

// copies lists the copies of the weights that answer, each by its devices.
func (x *models) copies() (list []string) {
	for _, g := range x.groups() {
		if g.Lost == nil {
			list = append(list, devicesText(&g))
		}
	}
	return list
}

// mayComeBack lists the devices that answer nothing, and that are not lost: another load may use them.
func (x *models) mayComeBack() (ids []device.ID) {
	usable := x.usable()
	for _, g := range x.groups() {
		for _, id := range g.Devices {
			if g.Lost != nil && slices.Contains(usable, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// acquire is the newest model, for a request. It waits while one is loaded.
func (x *models) acquire(ctx context.Context) (*model, error) {
	for {
		x.mu.Lock()
		m, broken, closed, changed, again := x.newest, x.broken, x.closed, x.changed, x.again
		if m != nil && !closed {
			m.users.Add(1)
		}
		x.mu.Unlock()
		switch {
		case closed:
			return nil, unavailable("the server ends")
		case m != nil:
			return m, nil
		case broken != nil:
			return nil, reloading(broken, again)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reloading is the problem of requests while the model is loaded again.
func reloading(broken error, again time.Time) *problem {
	p := unavailable(fmt.Sprintf("the model is being loaded again after a failure: %v", broken))
	p.retry = max(1, int(math.Ceil(time.Until(again).Seconds())))
	return p
}

// now is the newest model, without waiting for one.
func (x *models) now() (m *model, again time.Time, broken error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.newest, x.again, x.broken
}

// used says which weights are in use.
func (x *models) used() (u berth.Used) {
	if m, _, _ := x.now(); m != nil {
		u = m.service.Used()
	}
	return u
}

// notes say what a user may not expect of the weights in use.
func (x *models) notes() []string {
	if m, _, _ := x.now(); m != nil {
		return m.trained.Notes()
	}
	return nil
}

// parts are the weights in use, those of each adapter behind the model's; nil while none are.
func (x *models) parts() []berth.ServicePart {
	if m, _, _ := x.now(); m != nil {
		return m.service.Parts()
	}
	return nil
}

// release ends a request's use of a model.
func (x *models) release(m *model) {
	if list := m.service.Warnings(); list != nil {
		for _, text := range list {
			x.opt.Log(text)
		}
		x.tellLost(m)
	}
	m.users.Done()
}

// tellLost says when devices answer again that the newest model has lost, each once. Where it has lost the last one, all are
// opened anew.
func (x *models) tellLost(m *model) {
	var lines []string
	x.mu.Lock()
	usable := x.devices.Usable()
	for _, g := range m.service.Stats().Groups {
		for _, id := range g.Devices {
			if x.newest == m && m.service.Err() == nil && g.Lost != nil && !slices.Contains(m.lost, id) {
				m.lost, x.told = append(m.lost, id), ""
				lines = append(lines, comesBack(id, slices.Contains(usable, id)))
			}
		}
	}
	x.mu.Unlock()
	for _, text := range lines {
		x.opt.Log(text)
	}
}

// set makes m the newest model, nil for none, and gives the one before. broken is the
// reason why there is none.
func (x *models) set(m *model, broken error) (before *model) {
	before, x.newest, x.broken = x.newest, m, broken
	if before != nil {
		for _, g := range before.service.Stats().Groups {
			for _, id := range g.Devices {
				if g.Lost != nil {
					x.out[id] = g.Lost
				}
			}
		}
	}
	if m != nil {
		for _, g := range m.service.Stats().Groups {
			for _, id := range g.Devices {
				delete(x.out, id)
			}
		}
	}
	close(x.changed)
	x.changed = make(chan struct{})
	return before
}

// put is set for others. Where a device was lost meanwhile, on which m is too, m is ended.
func (x *models) put(m *model) (before *model, err error) {
	x.mu.Lock()
	if err := x.broken; err != nil {
		x.mu.Unlock()
		return nil, errors.Join(err, x.end(m))
	}
	defer x.mu.Unlock()
	return x.set(m, nil), nil
}

// end waits for the requests of a model that is the newest no more, and frees its memory.
func (x *models) end(m *model) error {
	if m == nil {
		return nil
	}
	m.users.Wait()
	x.counted.end(m.service)
	return errors.Join(m.service.Close(), m.trained.Close())
}

// change answers with the weights that the options choose now. Where devices have no memory for both at
// once, requests wait while the old ones give way; if the new ones cannot be loaded, the
// old ones come back. Adapters of the indices kept have the weights that they have now. With anew, so has everything else: the
// weights in use are loaded on all devices.
func (x *models) change(ctx context.Context, kept []int, anew bool) error {
	select {
	case x.changes <- struct{}{}:
		defer func() { <-x.changes }()
	case <-ctx.Done(): // a repair may take for ever
		return context.Cause(ctx)
	}
	err := x.to(ctx, kept, anew)
	x.settle(err == nil)
	return err
}

// to is change, by the holder of changes.
func (x *models) to(ctx context.Context, kept []int, anew bool) error {
	c := x.asked()
	if m, _, broken := x.now(); anew || len(kept) > 0 {
		if m == nil {
			return cmp.Or(broken, errLoading)
		}
		if anew {
			c = x.those(m)
		}
		var err error
		if c, err = x.keeping(ctx, c, m, kept); err != nil {
			x.check(m)
			return err
		}
	}
	next, err := x.loadOnRest(ctx, c, false)
	if errors.Is(err, berth.ErrOccupied) { // by the old weights alone, which stay
		return x.instead(c)
	}
	if err != nil {
		return err
	}
	before, err := x.put(next)
	return errors.Join(err, x.end(before))
}

// settle tells which devices answer, where they are others than those that were told last. Where the weights in use were asked
// for, no failure of their devices counts any more.
func (x *models) settle(asked bool) {
	groups := x.groups()
	x.mu.Lock()
	for _, g := range groups {
		for _, id := range g.Devices {
			if asked && g.Lost == nil {
				delete(x.tries, id)
			}
		}
	}
	x.mu.Unlock()
	text := copiesText(x.copies())
	x.mu.Lock()
	others := text != "" && text != x.told
	if others {
		x.told = text
	}
	x.mu.Unlock()
	if others {
		x.opt.Log(text)
	}
}

// errLoading is the error of weights that are to be kept while none are loaded.
var errLoading = errors.New("the model is being loaded")

// instead is change to a choice without memory for both: the old weights leave first. From then
// on, requests wait for the new ones, so nothing but close ends it early.
func (x *models) instead(c choice) error {
	old, err := x.put(nil)
	if old == nil || err != nil {
		return err
	}
	before := x.those(old)
	for i, a := range c.adapters {
		before.adapters[i].Kept = a.Kept
	}
	if err := x.end(old); err != nil { // a device was lost meanwhile
		x.fail(nil, err)
		return err
	}
	next, err := x.loadOnRest(x.life, c, false)
	if err == nil {
		_, err = x.put(next)
		return err
	}
	again, failure := x.loadOnRest(x.life, before, false)
	if failure != nil {
		x.fail(nil, failure)
		return errors.Join(err, failure)
	}
	_, failure = x.put(again)
	return errors.Join(err, failure)
}

// check looks whether a failed request has lost the model's device, and loads the model
// again if so.
func (x *models) check(m *model) {
	if cause := m.service.Err(); cause != nil {
		x.fail(m, cause)
	}
}

// fail begins to load the model again, unless another than m is the newest.
func (x *models) fail(m *model, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.newest != m || x.life.Err() != nil || x.broken != nil {
		return
	}
	x.set(nil, cause)
	x.repairs.Go(func() { x.repair(m, cause) })
}

// The pauses of repairs. The first failure is repaired at once; each one that follows soon
// doubles the pause.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
	calm       = 10 * time.Second // without a failure, after which the next is the first again
)

// repair opens the devices anew, and loads the model, until that succeeds.
func (x *models) repair(m *model, cause error) {
	x.changes <- struct{}{}
	defer func() { <-x.changes }()
	if time.Since(x.repaired) > calm {
		x.pause = 0
	}
	x.opt.Log(fmt.Sprintf("the device failed: %v; loading the model again%s", cause, in(x.pause)))
	_ = errors.Join(x.end(m), x.devices.Close()) // they tell of the same failure
	for x.wait() {
		next, err := x.reopen(x.life)
		x.pause = max(firstPause, min(2*x.pause, mostPause))
		if err == nil {
			x.mu.Lock()
			x.set(next, nil)
			x.mu.Unlock()
			x.repaired = time.Now()
			x.counted.repairs.Add(1)
			x.opt.Log("the model is loaded again")
			x.settle(true)
			return
		}
		if x.life.Err() != nil { // it ended the load
			return
		}
		x.opt.Log(fmt.Sprintf("the model cannot be loaded: %v; trying again%s", err, in(x.pause)))
	}
}

// in words a pause.
func in(pause time.Duration) string {
	if pause == 0 {
		return ""
	}
	return fmt.Sprintf(" in %v", pause)
}

// wait waits for the pause; ok is false where the server is closed before.
func (x *models) wait() (ok bool) {
	x.mu.Lock()
	x.again = time.Now().Add(x.pause)
	x.mu.Unlock()
	select {
	case <-time.After(x.pause):
		return x.life.Err() == nil
	case <-x.life.Done():
		return false
	}
}

// reopen opens the devices anew, and loads the model.
func (x *models) reopen(ctx context.Context) (m *model, err error) {
	d, err := x.devices.Reopen()
	if err != nil {
		return nil, err
	}
	x.counted.reopened()
	x.mu.Lock()
	x.devices = d
	usable, missing := d.Usable(), d.Missing()
	clear(x.out)
	for _, id := range x.all {
		if !slices.Contains(usable, id) {
			x.out[id] = errors.New(missing)
		}
	}
	x.mu.Unlock()
	if missing != "" {
		x.opt.Log(fmt.Sprintf("%s; going on without these devices, on %s", missing, idsText(usable)))
	}
	if m, err = x.loadOnRest(ctx, x.asked(), true); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return m, nil
}

// close waits for the requests under way, and closes the devices.
func (x *models) close() error {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil
	}
	x.closed = true
	x.die()
	x.set(x.newest, x.broken) // those that wait see that it is closed
	x.mu.Unlock()
	x.repairs.Wait()
	x.changes <- struct{}{}
	defer func() { <-x.changes }()
	x.mu.Lock()
	last := x.set(nil, nil)
	x.mu.Unlock()
	err := errors.Join(x.end(last), x.devices.Close())
	for _, text := range x.devices.Missed() {
		x.opt.Log(text)
	}
	return err
}
