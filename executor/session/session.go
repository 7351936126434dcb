package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
)

// Session is a model on devices. Its fields are set once Open or Without returns, and do not
// change from then on.
type Session struct {
	Config  *configs.Config // with bytes in place of percentages of memory, and with the plan that was chosen
	Info    *datasets.Info  // of the data that the model is trained on
	Spec    models.Spec
	Sizes   Sizes
	Devices []device.Device

	// What the plan function of Open sets.
	Plan   *partition.Plan // the cut that every graph of the model has
	Choice planning.Choice // of a training's plan
	Groups planning.Groups // of devices with the plan
	Judge  *answer.Judge   // of a training's validation part
	Tester *answer.Judge   // of its test part
	// Batches is the bytes on the host of a training's batches, and of messages between ranks that go through it.
	Batches int64
	// Images is the bytes on the host of decoded images, with a bound on host memory.
	Images int64

	Planner *planning.Planner
	Times   *timing.Book

	asked     configs.Devices   // the section of the config that was given: on shared devices, Config has that of those
	given     configs.Partition // the section of the config that was given: with ranks, Config has how those divide the model
	at        []int             // of each device, its index in the config of its rank: lost ones are not among them
	of        []int             // of each device, its rank; nil without ranks
	rankTimes *rankTimes        // nil without ranks
	trains    bool              // the plan is a training's
	link      partition.Link    // between ranks
	notes     []string
	limits    []string // that percentages of memory became
	percentOf []int64  // per device, the bytes that its percentage is of; 0: it has none. Nil: no device has
	held      *held

	part  string // behind the name on shared devices, of a session on a part of the devices: ":cpu:1"
	parts int    // such sessions that are used at the same time, and divide the host's memory; 0: there is this one alone
}

// Options describe a session to open.
type Options struct {
	Config    *configs.Config
	Info      *datasets.Info
	Spec      models.Spec
	Sizes     Sizes
	Partition configs.Partition // with Crew, the config's section that run folder and checkpoints keep
	Crew      *crew.Crew        // the ranks that plan and train together; nil: this process does alone
	AsRanks   int               // without Crew: plan as if so many ranks had devices like those of this process
	Link      partition.Link    // between ranks; the zero value is [partition.DefaultLink]
	Shared    *Share            // the devices to use; nil: the config's, for this session alone
	Trains    bool              // the plan is a training's: limits of memory hold for it
	Notes     []string          // of the data, for Notes
	Costs     string            // the file of measured times; "": that of costs.DefaultPath
	Measuring func(share float64)

	// OnSpan hears of each operation of the devices, and OnKernel of each kernel, from the
	// goroutines of their streams; nil: nobody does.
	OnSpan   func(device.Span)
	OnKernel func(device.KernelSpan)
}

// Open opens the devices, and has plan set what a Session's plan function sets. Unless that
// succeeds, the devices are closed. Where the config limits memory by a percentage, a plan
// without limits comes first, and the config gets the bytes. A limit holds, whatever the plan is for:
// below the floor of every plan, Open fails with a [partition.MemoryError] that has the number.
func Open(o Options, plan func(*Session) error) (*Session, error) {
	held, err := hold(o)
	if err != nil {
		return nil, err
	}
	s := &Session{
		Config: o.Shared.configFor(o.Config), Info: o.Info, Spec: o.Spec, Sizes: o.Sizes,
		asked: o.Config.Devices, given: o.Partition, trains: o.Trains, link: o.Link, notes: o.Notes, held: held,
	}
	s.Times = timing.NewBook(timing.BookOptions{Path: o.Costs, Measuring: o.Measuring, Watch: hangs(s.Config.Devices)})
	if percent, err := s.byPercentage(); err != nil {
		return nil, err
	} else if !percent {
		return s, s.open(planning.Planner{}, plan)
	}
	if err := s.open(planning.Planner{Unlimited: true}, plan); err != nil {
		return nil, err
	}
	err = s.limit()
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return s, s.open(planning.Planner{Picked: s.Choice.Picked}, plan)
}

// limit puts bytes into the config in place of percentages of the plan's peaks.
func (s *Session) limit() error {
	peaks := make([]int64, len(s.Devices))
	for i := range s.Plan.Memory {
		f := &s.Plan.Memory[i]
		peaks[f.Device] = f.Peak
	}
	c, at, specs := *s.Config, s.at, specsOf(s.Devices)
	if s.held.crew != nil { // each rank limits its own
		first := slices.Index(s.of, s.held.crew.Rank())
		end := first + len(slices.DeleteFunc(slices.Clone(s.of), func(rank int) bool { return rank != s.held.crew.Rank() }))
		at, specs, peaks = at[first:end], specs[first:end], peaks[first:end]
	}
	all, err := oneByOne(c.Devices)
	if err != nil {
		return err
	}
	if s.held.crew == nil {
		s.percentOf = make([]int64, len(peaks))
		for d, i := range at {
			if i < len(all) && all[i].Memory.Percent > 0 {
				s.percentOf[d] = peaks[d]
			}
		}
	}
	c.Devices, s.limits, err = limited(c.Devices, at, specs, peaks)
	if len(s.Config.Devices.Each) == 0 {
		for i := range c.Devices.Each { // which one limit became
			c.Devices.Each[i].Pos = c.Where("devices.memory")
		}
	}
	s.Config = &c
	return err
}

// open opens the devices, and plans with them. like has what else the planner knows.
func (s *Session) open(like planning.Planner, plan func(*Session) error) (err error) {
	if s.Devices, s.at, s.of, err = s.held.open(s.Config); err != nil {
		return refused(s.Config, err)
	}
	planned := false // nor where plan panics
	defer func() {
		if !planned {
			err = errors.Join(err, s.held.close(s.Devices))
		}
	}()
	if s.held.crew != nil {
		s.rankTimes = newRankTimes(s.Times, s.held.crew, s.of)
	}
	like.Lost = s.held.shared.lacks(s.Devices)
	like.Elsewhere = planning.Elsewhere(s.Config, s.Devices)
	s.Planner = s.planner(like)
	if err = plan(s); err != nil {
		err = s.Placed(err)
	}
	err = s.agreeOnPlan(err)
	planned = err == nil
	return err
}

// planner plans for the session's devices. like has what else the planner knows.
func (s *Session) planner(like planning.Planner) *planning.Planner {
	p := like
	p.Config, p.Devices, p.Times = s.Config, s.Devices, s.Times
	p.Ranks, p.Rank, p.Link = s.of, s.rank(), s.link
	if n := s.held.asRanks; n > 0 {
		own := s.Devices[:len(s.Devices)/n]
		p.Times = &likeTimes{s.Times, own, specsOf(own)}
	}
	if s.held.crew != nil {
		p.Times = s.rankTimes
	}
	p.Shared, p.Answering = s.held.shared != nil, !s.trains
	p.Steps = planning.Steps{Batch: s.Sizes.Batch, Microbatches: s.Sizes.Microbatches, LastOf: s.Sizes.LastOf}
	p.Specs = specsOf(s.Devices)
	if p.Shared {
		s.held.shared.limit(p.Specs, s.at, s.Config.Devices)
	}
	for i := range p.Specs {
		if p.Unlimited {
			p.Specs[i].MemoryBytes = 0
		}
	}
	return &p
}

// Without is the session on the devices but for the one at i, which is lost. plan does what the
// plan function of Open does. From then on only one of the two sessions may be used.
func (s *Session) Without(i int, plan func(*Session) error) (*Session, error) {
	left := *s
	left.limits, left.percentOf = nil, nil // they have been said
	left.Devices, left.at = slices.Delete(slices.Clone(s.Devices), i, i+1), slices.Delete(slices.Clone(s.at), i, i+1)
	like := *s.Planner
	like.Lost, like.Uneven = true, nil
	left.Planner = left.planner(like)
	if err := plan(&left); err != nil {
		return nil, err
	}
	return &left, nil
}

// Evenly is the session with a plan for devices that take so many times as long as arithmetic says. plan does what the plan
// function of Open does. The config keeps the plan of before: a resumed run begins with that.
func (s *Session) Evenly(slow []float64, plan func(*Session) error) (*Session, error) {
	other := *s
	like := *s.Planner
	like.Uneven = &planning.Uneven{Plan: s.Plan, Slow: slow}
	other.Planner = other.planner(like)
	if err := plan(&other); err != nil {
		return nil, err
	}
	return &other, nil
}

// InMicrobatches is the session with microbatches of at most so many samples.
func (s *Session) InMicrobatches(samples int) *Session {
	other := *s
	other.Sizes.Microbatch = min(s.Sizes.Microbatch, samples)
	return &other
}

// On is the session with other devices in place of its own, such as those with faults.
func (s *Session) On(devices []device.Device) *Session {
	other := *s
	other.Devices = devices
	other.Planner = other.planner(*s.Planner)
	return &other
}

// KeepPlan puts the choice into the config, and so into run folder and checkpoints. That of ranks is not kept, as the run
// may go on with any number of them, nor one for devices that are slow for a time.
func (s *Session) KeepPlan() {
	if s.of != nil || s.Planner.Uneven != nil {
		return
	}
	c := *s.Config
	c.Partition.Chosen = s.Planner.Keep(s.Choice)
	s.Config = &c
}

// Kept is the config as run folder and checkpoints keep it. With shared devices, and of ranks, its section devices is the one
// that was given: a resumed run may have devices of its own, or other ranks.
func (s *Session) Kept() ([]byte, error) {
	c := *s.Config
	if s.Shared() || s.held.crew != nil {
		c.Devices = s.asked.WithDefaults()
	}
	if s.held.crew != nil {
		c.Partition = s.given
	}
	return c.Kept()
}

// Shared reports whether others may use the devices, too.
func (s *Session) Shared() bool { return s.held.shared != nil }

// CheckOpen refuses a closed session, and one whose shared devices are closed.
func (s *Session) CheckOpen() error {
	switch {
	case s.held.closed.Load():
		return errs.ErrClosed
	case s.held.shared.isClosed():
		return fmt.Errorf("the shared Devices are %w", errs.ErrClosed)
	}
	return nil
}

// Usable refuses a closed session, and devices that give no results back.
func (s *Session) Usable() error {
	if err := s.CheckOpen(); err != nil {
		return err
	}
	if n := s.held.asRanks; n > 0 {
		return fmt.Errorf("%w: the run is planned for %d processes: start them, for example with mpirun -n %d", errs.ErrOptions, n, n)
	}
	for _, d := range s.Plan.Devices() {
		if spec := s.Devices[d].Spec(); !spec.CopyOut {
			return fmt.Errorf("%w: %s (%s) gives neither losses nor weights back: it is for planning and tests; train on another kind of device", errs.ErrOptions, spec.ID, spec.Description)
		}
	}
	return nil
}

// Model is the model and its cut, for using its weights.
func (s *Session) Model() infer.Model {
	c := s.Config.Devices
	m := infer.Model{
		Spec: s.Spec, Plan: s.Plan, Microbatch: s.Sizes.Microbatch, Groups: s.GroupDevices(), Devices: s.Planner.Specs,
		OpByOp: c.IsOpByOp(), Beside: c.CompilesBeside(),
	}
	switch {
	case s.held.crew != nil:
		m.Ranks, m.Groups = s.answersOfRanks(), s.groupsOfRanks()
	case !s.Plan.AnyTight():
		m.Room = s.roomFor
	}
	return m
}

// GroupDevices are the groups of devices that have the whole model: see [planning.Groups].
func (s *Session) GroupDevices() [][]int { return s.Groups.Devices(s.Plan, s.Planner.Specs) }

// RMSE is the root of a mean squared error in the unit of the numbers that are
// predicted. It is nil where the loss is another, or each of several numbers
// was scaled to its own unit.
func (s *Session) RMSE(loss *float64) *float64 {
	if loss == nil || s.Spec.Loss != "mse" {
		return nil
	}
	v := math.Sqrt(*loss)
	if x := s.Info.TargetScaling; x != nil {
		if len(x.Std) > 1 {
			return nil
		}
		v *= x.Std[0]
	}
	return &v
}

// Parameters is the number of the model's parameters.
func (s *Session) Parameters() (n int64) {
	for _, x := range s.Plan.Stages {
		n += x.Parameters
	}
	return n
}

// Schedule is the order of a full step's microbatches.
func (s *Session) Schedule() (schedule.Schedule, error) {
	return s.Plan.ScheduleOf(s.Sizes.Microbatches)
}

// Predict predicts the plan's step: see [timing.Book.Predict].
func (s *Session) Predict(ctx context.Context) (*partition.Prediction, error) {
	return s.Times.Predict(ctx, s.Plan)
}
