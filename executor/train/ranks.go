package train

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
)

// refuse is a mistake in a key of a config of ranks.
func (o *OpenOptions) refuse(c *configs.Config, key, text string) error {
	return configs.At(c.Where(key), fmt.Errorf("%w: %s: %s", errs.ErrOptions, key, text))
}

// checkRanks refuses what ranks cannot do.
func (o *OpenOptions) checkRanks(c *configs.Config) error {
	n := o.size()
	if n == 0 {
		return nil
	}
	switch {
	case o.Devices != nil:
		return fmt.Errorf("%w: the devices of several processes cannot be shared by several runs: leave Devices out", errs.ErrOptions)
	case c.Train.Reduction != configs.ReduceTree && stages(c) < 2 && c.Partition.Plan != configs.PlanAuto:
		return o.refuse(c, "train.reduction", fmt.Sprintf("%d processes with a replica each work on parts of a step, which only a tree can sum: give --set train.reduction=tree (the weights are others), or let each have a part of the model by --set partition.stages=%d or --set partition=auto", n, n))
	case c.Devices.OnLoss == configs.OnLossReplan:
		return o.refuse(c, "devices.on_device_loss", "several processes do not go on without a device: give --set devices.on_device_loss=stop, and start them again from the newest checkpoint")
	}
	return nil
}

// size is the number of ranks that a run is planned for; 0: this process is alone.
func (o *OpenOptions) size() int {
	if o.Ranks != nil {
		return o.Ranks.Size()
	}
	return o.AsRanks
}

// stages is the number of stages that a config asks for; 0: it leaves it open.
func stages(c *configs.Config) int {
	return max(c.Partition.Stages.Count, len(c.Partition.Stages.Blocks))
}

// forRanks is a config as several ranks plan it: unless it says otherwise, with a replica for each, of which each
// updates a part of the parameters.
func (o *OpenOptions) forRanks(ctx context.Context, c *configs.Config) (*configs.Config, error) {
	if o.size() == 0 {
		return c, nil
	}
	own := *c
	own.Partition.Chosen = nil
	replicas, err := o.replicas(ctx, c)
	if o.Ranks != nil {
		err = o.Ranks.Agree(ctx, "its replicas", err)
	}
	if err != nil {
		return nil, err
	}
	own.Partition.Replicas = replicas
	if !o.says(c, "partition.shard") && (replicas > 1 || c.Partition.Plan == configs.PlanAuto) {
		own.Partition.Shard = configs.ShardOptimizer
	}
	return &own, nil
}

// replicas are those that a config asks for, or else that ranks have: a replica each, or of a model in stages as many
// as there are devices for.
func (o *OpenOptions) replicas(ctx context.Context, c *configs.Config) (n int, err error) {
	kinds, failed := session.Kinds(c.Devices)
	own := []byte(strings.Join(kinds, ","))
	lists := slices.Repeat([][]byte{own}, o.AsRanks)
	if o.Ranks != nil {
		lists, err = o.Ranks.Gather(ctx, "its devices", own)
	}
	if err = cmp.Or(failed, err); err != nil {
		return 0, err
	}
	devices, alike := 0, true
	for _, b := range lists {
		devices += strings.Count(string(b), ",") + 1
		alike = alike && bytes.Equal(b, lists[0])
	}
	switch size, k := o.size(), stages(c); {
	case c.Partition.Plan == configs.PlanAuto, o.says(c, "partition.replicas"):
		return c.Partition.Replicas, nil // auto chooses others
	case c.Train.Reduction != configs.ReduceTree, !alike && k > 1:
		n = 1
	case k > 1:
		n = min(size, max(1, devices/k))
	case !alike:
		return 0, o.refuse(c, "partition.replicas", fmt.Sprintf("%d processes have a replica each where all have the same devices, and these have %s: let each have a part of the model by --set partition.stages=%d or --set partition=auto", size, bytes.Join(lists, []byte(" : ")), devices))
	default:
		n = size
	}
	if m := c.Train.Microbatches; n > m {
		return 0, o.refuse(c, "train.microbatches", fmt.Sprintf("%d processes with a replica each share the microbatches of a step, and there are %d: start at most %d, or give a batch more microbatches (the weights are others)",
			n, m, m))
	}
	return n, nil
}

// says reports whether a config's user has given a key. The config of a run folder has all keys.
func (o *OpenOptions) says(c *configs.Config, key string) bool {
	return c.Overridden(key) || o.Resume == "" && c.Given(key)
}

// agreeOnConfig has all ranks compare what they are to do.
func (o *OpenOptions) agreeOnConfig(ctx context.Context, c *configs.Config, err error) error {
	if o.Ranks == nil {
		return err
	}
	facts, err := o.facts(c, err)
	if err = o.Ranks.Agree(ctx, "its config", err, facts...); err == nil {
		o.Ranks.SetTimeout(cmp.Or(c.Distributed.Timeout, crew.DefaultTimeout))
	}
	return err
}

// facts are what the configs of all ranks have in common. Devices are each rank's own, and so are the paths of data,
// whose fingerprints are compared. Rank 0 alone uses the name.
func (o *OpenOptions) facts(c *configs.Config, err error) ([]crew.Fact, error) {
	if err != nil {
		return nil, err
	}
	list, err := c.AllSettings()
	if err != nil {
		return nil, err
	}
	var facts []crew.Fact
	add := func(name, value, remedy string) {
		facts = append(facts, crew.Fact{Name: name, Value: value, Remedy: remedy})
	}
	for _, s := range list {
		if strings.HasPrefix(s.Key, "devices.") && s.Key != "devices.op_by_op" && s.Key != "devices.compile" || s.Key == "data.path" || s.Key == "name" {
			continue
		}
		add(s.Key, s.Value, "give all ranks the same config, and the same flags for it")
	}
	add("--overfit-batch", strconv.Itoa(o.Overfit), "give it to all ranks")
	add("--resume", strconv.FormatBool(o.Resume != ""), "give it to all ranks")
	return facts, nil
}

// shared is what rank 0 has read of the run folder: others may not see it.
func (o *OpenOptions) shared(ctx context.Context, m *checkpoint.Manifest) (*checkpoint.Manifest, error) {
	b, err := json.Marshal(m)
	if err == nil {
		b, err = o.Ranks.Share(ctx, "the newest checkpoint", b)
	}
	if err != nil {
		return nil, err
	}
	m = nil
	return m, json.Unmarshal(b, &m)
}

// agreeOnData has all ranks compare their data.
func (o *OpenOptions) agreeOnData(ctx context.Context, data *datasets.Dataset, err error) error {
	if o.Ranks == nil {
		return err
	}
	f := crew.Fact{Name: "the data's fingerprint", Remedy: "give all ranks the same files, in the same order (data.path)"}
	if err == nil {
		f.Value = data.Info.Fingerprint
	}
	return o.Ranks.Agree(ctx, "its data", err, f)
}

// crew are the ranks that train together; nil: this process is alone.
func (a *attempt) crew() *crew.Crew { return a.session.Crew() }

// leads reports whether this process has the run folder, and decides.
func (a *attempt) leads() bool { return a.crew() == nil || a.crew().Rank() == 0 }

// cut ends the messages of this rank after a failure: see [crew.Crew.Quit]. returned is false after a panic.
func (a *attempt) cut(returned bool, err error) {
	c := a.crew()
	switch {
	case c == nil || returned && (err == nil || errors.Is(err, errs.ErrStopped)):
	case returned:
		c.Quit(err)
	default:
		c.Quit(nil)
	}
}

// phase is what a rank does in its loop.
type phase struct {
	what  string
	step  int
	must  bool   // get on
	alone bool   // it waits for no rank
	moves uint64 // another number than in the phase before
}

// enters notes what this rank does from now on. Others hear of it.
func (l *loop) enters(p phase) {
	if l.a.crew() == nil {
		return
	}
	if before := l.phase.Load(); before != nil {
		p.moves = before.moves + 1
	}
	p.step = l.a.done + 1
	l.phase.Store(&p)
}

// The phases of a loop.
var (
	readingData = phase{what: "it reads its data", alone: true}
	steppingOn  = phase{what: "it is at its step", must: true}
	saving      = phase{what: "it saves a checkpoint", alone: true}
	evaluating  = phase{what: "it evaluates"}
	ending      = phase{what: "it ends the run"}
)

// tellDoing has others hear of what this rank does, until stopTelling.
func (l *loop) tellDoing() {
	c := l.a.crew()
	if c == nil {
		return
	}
	l.enters(steppingOn)
	c.SetDoing(l.doing)
	l.samples = c.Sample()
}

// stopTelling undoes tellDoing.
func (a *attempt) stopTelling() {
	if c := a.crew(); c != nil {
		c.SetDoing(nil)
	}
}

// doing is what this rank does now. It is called from another goroutine.
func (l *loop) doing() crew.Doing {
	p, rt := l.phase.Load(), l.a.rt
	d := crew.Doing{Step: p.step, What: p.what, Must: p.must, Moves: p.moves + uint64(rt.Worked()), Rank: -1}
	if p.alone {
		d.Rank = l.a.crew().Rank()
		return d
	}
	return l.a.session.Doing(rt, d)
}

// agree has all ranks compare how far they have come. Alone, err is what it is.
func (a *attempt) agree(ctx context.Context, what string, err error) error {
	if a.crew() == nil {
		return err
	}
	return a.crew().Agree(ctx, what, err)
}

// decide is agree about what rank 0 does for all.
func (a *attempt) decide(ctx context.Context, what string, err error) error {
	if a.crew() == nil {
		return err
	}
	return a.crew().Decide(ctx, what, err)
}

// checkRanks refuses what ranks cannot do.
func (a *attempt) checkRanks() error {
	if a.crew() == nil {
		return nil
	}
	refuse := func(text string) error {
		return fmt.Errorf("%w: several processes train together: %s", errs.ErrOptions, text)
	}
	switch {
	case len(a.opt.Faults) > 0:
		return refuse("faults cannot be injected: leave Faults out")
	case a.opt.Observer.inspects():
		return refuse("an observer cannot look at variables, which are on all of them: leave Inspect out")
	}
	return nil
}

// standing is where a run stands, as rank 0 tells the others.
type standing struct {
	At                   runstate.Progress
	Saved, Logged, Began int // of At, which a checkpoint does not keep
	Steps, MaxSteps      int // of goal
	Resume, Allow        bool
	Lends                bool // rank 0 gives the variables their first contents
}

// share has all ranks stand where rank 0 does.
func (a *attempt) share(ctx context.Context) (lends bool, err error) {
	if a.crew() == nil {
		return false, nil
	}
	s := standing{a.at, a.at.Saved, a.at.Logged, a.at.Began, a.goal.steps, a.goal.maxSteps, a.opt.Resume, a.opt.AllowChanged, a.opt.Resume || a.opt.Init != ""}
	if err := a.shareJSON(ctx, "where the run stands", &s); err != nil {
		return false, err
	}
	a.at, a.goal.steps, a.goal.maxSteps, a.opt.Resume, a.opt.AllowChanged = s.At, s.Steps, s.MaxSteps, s.Resume, s.Allow
	a.at.Saved, a.at.Logged, a.at.Began = s.Saved, s.Logged, s.Began
	return s.Lends, nil
}

// shareJSON gives all ranks what rank 0 has in v, a pointer.
func (a *attempt) shareJSON(ctx context.Context, what string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		b, err = a.crew().Share(ctx, what, b)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// savers are how ranks save together; nil if this process is alone.
func (a *attempt) savers() *saver.Ranks {
	c := a.crew()
	if c == nil {
		return nil
	}
	r := &saver.Ranks{
		Rank: c.Rank(), Holder: a.prog.Holder,
		Borrow: func(rank int) saver.Reader { return c.Borrow(rank) },
		Lend: func(ctx context.Context, read func(part int, off int64, dst []byte) error) error {
			return c.Lend(ctx, 0, read)
		},
	}
	r.Others = a.others()
	return r
}

// reckon is what becomes of the run after the step to come, as far as this rank knows: rank 0 decides by its clock, others
// ask for what somebody has asked of them.
func (l *loop) reckon(ctx context.Context) (o crew.Orders) {
	if ctx.Err() != nil {
		o.Stop, o.Why = true, context.Cause(ctx).Error()
		if c := l.a.crew(); !l.a.leads() {
			o.Why += " on " + c.Name(c.Rank())
		}
	}
	if l.askedFor() {
		o.Save = true
	}
	if !l.a.leads() {
		return o
	}
	if l.a.goal.lacks(l.nextSteps) {
		o.Stop = true
	}
	every := l.a.session.Config.Checkpoint.EveryTime
	if every > 0 && time.Since(l.saved) >= every {
		o.Save = true
	}
	return o
}

// nextSteps is nextStep for the step to come and the one after it, before which ranks can stop.
func (l *loop) nextSteps() time.Duration { return l.nextStep() + 2*l.clock.Longest() }

// follow has all ranks stand where rank 0 does after a boundary, whose metrics it alone has.
func (a *attempt) follow(ctx context.Context) error {
	if a.crew() == nil {
		return nil
	}
	_, err := a.share(ctx)
	return err
}

// memory is what the run has taken of each device. All ranks tell of theirs.
func (a *attempt) memory(ctx context.Context) ([]device.Stats, error) {
	own := make([]device.Stats, len(a.session.Devices))
	for i := range own {
		own[i] = a.rt.Memory(i)
	}
	c := a.crew()
	if c == nil {
		return own, nil
	}
	b, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	lists, err := c.Gather(ctx, "the memory of its devices", b)
	if err != nil {
		return nil, err
	}
	all := make([][]device.Stats, len(lists))
	for rank := range lists {
		if err := json.Unmarshal(lists[rank], &all[rank]); err != nil {
			return nil, err
		}
	}
	for i := range own {
		own[i] = all[a.session.Of(i)][i]
	}
	return own, nil
}

// rankReports are the rows of all ranks; nil if this process is alone.
func (l *loop) rankReports(ctx context.Context) (rows []RankReport, err error) {
	c := l.a.crew()
	if c == nil {
		return nil, nil
	}
	worked, idled := l.clock.Worked()
	own := RankReport{Rank: c.Rank(), Machine: c.Members()[c.Rank()].Host, WorkingS: worked.Seconds(), WaitingS: idled.Seconds(), SentBytes: c.Sent()}
	for rank, d := range l.samples.End() {
		if d > 0 {
			own.WaitedFor = append(own.WaitedFor, RankWait{rank, d.Seconds()})
		}
	}
	for i := range l.a.session.Devices {
		own.PeakBytes += l.a.rt.Memory(i).Peak
	}
	b, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	list, err := c.Gather(ctx, "its times", b)
	if err != nil {
		return nil, err
	}
	rows = make([]RankReport, len(list))
	for i, b := range list {
		if err := json.Unmarshal(b, &rows[i]); err != nil {
			return nil, fmt.Errorf("%s says %q of its times: %w", c.Name(i), b, err)
		}
	}
	return rows, nil
}

// finishBehind is finish on a rank that does not write the report: it takes part in what all do.
func (l *loop) finishBehind() (*Report, error) {
	a := l.a
	ctx := context.Background()
	boundary.Unseal(a.rt.Residency)
	if _, err := boundary.WeightsHash(ctx, a.prog, a.crew()); err != nil {
		return nil, err
	}
	if _, err := a.final(ctx); err != nil {
		return nil, err
	}
	if _, err := a.test(ctx, ""); err != nil {
		return nil, err
	}
	if _, err := a.memory(ctx); err != nil {
		return nil, err
	}
	if _, err := l.rankReports(ctx); err != nil {
		return nil, err
	}
	return &Report{Steps: a.at.Step, Epochs: a.at.Epoch, Finished: a.goal.completed(&a.at), Parameters: a.session.Parameters()}, nil
}
