package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// Run is a training that is planned: a session, and what it needs for steps. One goroutine uses
// it at a time.
type Run struct {
	Data *datasets.Dataset

	done   func() // gives the data back
	optim  optim.Spec
	longer int              // see restore.Run
	first  *session.Session // which the run was opened with
	now    planned          // after the loss of a device, what is planned for those that are left

	tracing tracing
}

// planned is a session, and the plans of steps that are other than its full one.
type planned struct {
	session *session.Session
	tail    *partition.Plan   // of an epoch's smaller last batch; nil if there is none
	buckets []*partition.Plan // see executor.LoadOptions
}

// CheckOpen refuses a closed run, and one whose shared devices are closed. It may be called from any goroutine.
func (r *Run) CheckOpen() error { return r.first.CheckOpen() }

// Close closes the session, and gives the data back unless a call still uses it. A second call does nothing.
func (r *Run) Close() error {
	err := r.now.session.Close()
	if !errors.Is(err, errs.ErrInUse) {
		r.done()
	}
	return err
}

// Gate is where the call under way stands still while somebody asks for that. It may be used from any
// goroutine.
func (r *Run) Gate() *executor.Gate { return r.first.Gate() }

// Crew is the processes that train together; nil: this one trains alone. It may be called from any goroutine.
func (r *Run) Crew() *crew.Crew { return r.first.Crew() }

// Memory is that of the run's devices, with its data on the host: see [session.Session.Memory]. It may be called from any
// goroutine.
func (r *Run) Memory() residency.Memory {
	m := r.first.Memory()
	if !r.first.Shared() {
		m.Host.Data = r.Data.Bytes()
	}
	return m
}

// Session has the devices. After the loss of one, it is another session, on those that are left.
func (r *Run) Session() *session.Session { return r.now.session }

// prepare plans, and refuses a plan that the host has too little memory for.
func (r *Run) prepare(ctx context.Context, s *session.Session) (planned, error) {
	p, err := r.planFor(ctx, s)
	if err != nil {
		return p, err
	}
	messages, err := r.messageBytes(ctx, &p)
	if err != nil {
		return p, err
	}
	return p, s.CheckHostMemory(r.Data, messages)
}

// planFor plans steps, and how they are judged.
func (r *Run) planFor(ctx context.Context, s *session.Session) (planned, error) {
	p := planned{session: s}
	err := r.plan(ctx, &p)
	if err == nil {
		s.Judge, err = s.NewJudge(ctx, r.Data.Val, session.AtBoundaries(s.Config))
	}
	if err == nil {
		s.Tester, err = s.NewJudge(ctx, r.Data.Test, session.AtBoundaries(s.Config))
	}
	if err != nil {
		return p, err
	}
	s.Judge.Cover(s.Tester)
	return p, nil
}

// messageBytes is the host memory of messages between ranks: of training, and of the evaluation that takes more.
func (r *Run) messageBytes(ctx context.Context, p *planned) (bytes int64, err error) {
	s, evaluations := p.session, int64(0)
	if !s.Hosted() || s.Planner.Unlimited {
		return 0, nil
	}
	for _, j := range []*answer.Judge{s.Judge, s.Tester} {
		if j.Part == nil {
			continue
		}
		list, err := infer.EvaluatorPrograms(ctx, j.Model(s.Model()), j.Part)
		if err != nil {
			return 0, err
		}
		n, err := s.MessageBytes(list...)
		if err != nil {
			return 0, err
		}
		evaluations = max(evaluations, n)
	}
	bytes, err = s.MessageBytes(p.program(ctx))
	return bytes + evaluations, err
}

// plan builds the graphs of a step and cuts them.
func (r *Run) plan(ctx context.Context, p *planned) error {
	s, z := p.session, p.session.Sizes
	if err := errors.Join(r.warmsUp(s), z.CheckPace(s.Config)); err != nil {
		return err
	}
	options, err := s.Planner.Options(ctx)
	if err == nil {
		err = options.CheckSchedule()
	}
	if err != nil {
		return err
	}
	full, err := r.graph(ctx, s, z.Microbatches)
	if err != nil {
		return err
	}
	if s.Choice, err = s.Planner.Choose(ctx, full); err != nil {
		return err
	}
	if s.Plan = s.Choice.Plan; s.Planner.Unlimited { // the peaks are those of full steps
		return nil
	}
	s.KeepPlan()
	if err := r.planBuckets(ctx, p); err != nil || z.Last == z.Batch {
		return err
	}
	size := r.size(ctx, s, z.Microbatches)
	size.Microbatch, size.Batch = z.TailMicrobatch(), z.Last
	last, err := models.Train(s.Spec, r.optim, size)
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	p.tail, err = partition.Derive(s.Plan, last, partition.DeriveOptions{Stop: stop.Of(ctx)})
	return err
}

// planBuckets plans for samples of each bucket, of the cut of those of the largest, which
// take the most memory.
func (r *Run) planBuckets(ctx context.Context, p *planned) error {
	s, sizes := p.session, r.Data.Train.Buckets()
	if len(sizes) < 2 {
		return nil
	}
	for i, positions := range sizes[:len(sizes)-1] {
		size := r.size(ctx, s, s.Sizes.Microbatches)
		size.Positions = positions
		g, err := models.Train(s.Spec, r.optim, size)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		b, err := partition.Derive(s.Plan, g, partition.DeriveOptions{For: partition.Bucket, Bucket: i + 1, Stop: stop.Of(ctx)})
		if err != nil {
			return err
		}
		p.buckets = append(p.buckets, b)
	}
	p.buckets = append(p.buckets, s.Plan)
	return nil
}

// Bucket is the samples of a run that are padded to one length.
type Bucket struct {
	Positions int
	Samples   int             // in the training part
	Steps     int             // of an epoch
	Plan      *partition.Plan // of a step; nil without samples: the bucket is not compiled
}

// Buckets are those of samples with different lengths, from the shortest; nil if all have
// one shape. The session's plan is that of the largest with samples, which takes the most memory.
func (r *Run) Buckets() (list []Bucket) {
	plans := map[int]*partition.Plan{}
	for i, positions := range r.Data.Train.Buckets() {
		plans[positions] = r.now.session.Plan
		if r.now.buckets != nil {
			plans[positions] = r.now.buckets[i]
		}
	}
	samples, batch := r.Data.Train.InBuckets(), r.now.session.Sizes.Batch
	for i, positions := range r.now.session.Info.Buckets {
		n := samples[i]
		list = append(list, Bucket{positions, n, (n + batch - 1) / batch, plans[positions]})
	}
	return list
}

// size is that of a full step in so many microbatches.
func (r *Run) size(ctx context.Context, s *session.Session, microbatches int) models.Size {
	z, positions := s.Sizes, 0
	if buckets := r.Data.Train.Buckets(); buckets != nil {
		positions = buckets[len(buckets)-1]
	}
	return models.Size{
		Positions: positions, Microbatch: z.Batch / microbatches, Microbatches: microbatches, Batch: z.Batch, Ring: z.Pace.Longest(), Stop: stop.Of(ctx), Room: s.Room(),
	}
}

// graph is the graph of a full step in so many microbatches.
func (r *Run) graph(ctx context.Context, s *session.Session, microbatches int) (*graph.Graph, error) {
	g, err := models.Train(s.Spec, r.optim, r.size(ctx, s, microbatches))
	var large *models.TooLargeError
	if errors.As(err, &large) {
		return nil, partition.TooLarge(large.Parameters, large.Room, large.Largest, large.Bytes)
	}
	return g, err
}

// warmsUp refuses a learning rate that warms up for longer than the run takes.
func (r *Run) warmsUp(s *session.Session) error {
	err := endsLater(r.optim)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w; lower schedule.warmup, or train for more steps", errs.ErrOptions, err)
	if text := s.Sizes.OneStep(); text != "" {
		err = fmt.Errorf("%w; %s", err, text)
	}
	return configs.At(s.Config.Where("schedule.warmup"), err)
}

// endsLater refuses a schedule that ends within its warm-up.
func endsLater(o optim.Spec) error {
	_, err := o.Schedule.Infer([]shape.Meta{shape.I32()})
	return err
}

// TimeSteps times what steps consist of, also those of each bucket: see [session.Session.TimeSteps].
func (r *Run) TimeSteps(ctx context.Context) (session.StepTiming, error) {
	plans := []*partition.Plan{r.now.session.Plan}
	for _, p := range r.now.buckets {
		if p != nil && p != plans[0] {
			plans = append(plans, p)
		}
	}
	return r.now.session.TimeSteps(ctx, plans...)
}

// Compare plans other ways to cut the step: see [planning.Planner.Compare].
func (r *Run) Compare(ctx context.Context) ([]planning.Comparison, error) {
	s := r.now.session
	return s.Planner.Compare(ctx, func(microbatches int) (*graph.Graph, error) { return r.graph(ctx, s, microbatches) })
}

// Executables foretells the executables of training, with the evaluations at boundaries and at the end.
// Nothing is compiled.
func (r *Run) Executables(ctx context.Context) (session.Executables, error) {
	s, programs := r.now.session, []executor.LoadOptions{r.now.program(ctx)}
	for _, j := range []*answer.Judge{s.Judge, s.Tester} {
		if j.Part == nil {
			continue
		}
		list, err := infer.EvaluatorPrograms(ctx, j.Model(s.Model()), j.Part)
		if err != nil {
			return session.Executables{}, err
		}
		programs = append(programs, list...)
	}
	return s.Executables(programs)
}

// program is the program of training, without constants.
func (p *planned) program(ctx context.Context) executor.LoadOptions {
	s := p.session
	opByOp := s.Config.Devices.IsOpByOp()
	return executor.LoadOptions{
		Net: "train", Full: s.Plan, Buckets: p.buckets, Tail: p.tail, LastMicrobatches: s.Sizes.LastMicrobatches(),
		Balance: s.Balance(), OpByOp: opByOp, CheckFinite: opByOp, Beside: s.Config.Devices.CompilesBeside(), Stop: stop.Of(ctx),
	}
}
