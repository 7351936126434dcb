package berth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
)

// defaultStaging is the staging area where memory is short.
const defaultStaging = 256 << 20

// saver takes the run's checkpoints. With the whole state staged, copies are
// queued at a step boundary and a goroutine writes them while training goes
// on; otherwise the state streams through a bounded area, and training waits.
// One save is under way at a time.
type saver struct {
	bound   int64 // of the staging area; 0: the whole state is staged
	stage   *residency.Staging
	list    []checkpoint.Tensor
	order   []int // in which variables are copied
	bytes   int64
	done    chan savedOne // of the save under way; nil: none is
	longest time.Duration
	sums    struct{ stall, copy, save time.Duration }
	count   int
	untidy  bool            // tidying failed once: not worth another attempt at every save
	told    map[string]bool // of what is damaged
}

// savedOne is how a save ended.
type savedOne struct {
	step       int
	id         uint64
	bytes      int64
	copy, save time.Duration
	tidied     bool
	untidy     error // what went wrong once it was saved
	damaged    []checkpoint.Skipped
	err        error
}

// bounded is the config's bound of the staging area; 0: the whole state.
func bounded(c *configs.Config, state int64) int64 {
	switch s := c.Checkpoint.Staging; {
	case s == configs.StageWhole:
		return 0
	case s > 0:
		return s
	}
	// There must be room on the devices, too, for as much and for what
	// training adds to it.
	if free, err := host.Available(); err == nil && state <= free/4 {
		return 0
	}
	return defaultStaging
}

// save takes a checkpoint of where the run stands. All queued work must be
// settled. With the whole state staged it does not wait for the disk.
func (t *trainer) save(ctx context.Context) error {
	asked, s := time.Now(), &t.saves
	if err := t.awaitSave(); err != nil {
		return err
	}
	start := time.Now()
	m, err := t.manifest()
	if err != nil {
		return err
	}
	if s.stage == nil {
		t.newStage()
	}
	src := &stagedSource{s: s, ctx: ctx, at: map[string]int{}}
	for i, x := range s.list {
		src.at[x.Name] = i
	}
	if err := src.queue(); err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", t.at.Step, err)
	}
	s.done = make(chan savedOne, 1)
	go func() { s.done <- t.write(ctx, m, src, start) }()
	if s.bound > 0 {
		err = t.awaitSave()
	}
	s.sums.stall += time.Since(asked)
	t.clock.saving(s.done != nil)
	return err
}

// reserve gets the memory that a whole state is staged in, while the first step
// runs: the first save would be slow otherwise.
func (t *trainer) reserve() error {
	if t.saves.bound > 0 {
		return nil
	}
	t.newStage()
	return t.saves.stage.Reserve()
}

// newStage finds the variables.
func (t *trainer) newStage() {
	s := &t.saves
	var all []*residency.Tensor
	for _, v := range t.Plan.Graph.Vars {
		s.list = append(s.list, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
		s.bytes += v.Meta.Bytes()
		all = append(all, t.prog.Var(v.Name))
	}
	s.stage = t.rt.Residency.NewStaging(all...)
	s.order = make([]int, len(s.list))
	for i := range s.order {
		s.order[i] = i
	}
	if s.bound == 0 {
		s.byNeed(t.Plan.Graph)
	}
}

// byNeed orders copies as the next step is likely to overwrite variables:
// updates run right behind their gradients, of the last layer first. What no
// step writes comes last.
func (s *saver) byNeed(g *graph.Graph) {
	update := map[string]int{}
	for _, a := range g.Assigns {
		update[a.Var.Name] = 1 + slices.Index(g.Nodes, a.New.Node)
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		return update[s.list[b].Name] - update[s.list[a].Name]
	})
}

// manifest says where the run stands.
func (t *trainer) manifest() (m checkpoint.Manifest, err error) {
	extra, err := json.Marshal(runstate.State{Progress: t.at, Data: t.Data.Info})
	if err != nil {
		return m, err
	}
	text, err := rootedText(t.Config)
	if err != nil {
		return m, err
	}
	prints, err := t.fingerprints()
	return checkpoint.Manifest{
		Step: t.at.Step, Epoch: t.at.Epoch, Index: t.at.Index, Fingerprints: prints,
		Metrics: t.at.Metrics(), Best: t.at.Best, Extra: extra, Config: text,
	}, err
}

// write saves what is staged, and gives up what is not to be kept. It runs
// beside training.
func (t *trainer) write(ctx context.Context, m checkpoint.Manifest, src *stagedSource, start time.Time) savedOne {
	one := savedOne{step: m.Step, bytes: src.s.bytes}
	if one.err = src.wait(); one.err != nil {
		return one
	}
	one.copy = time.Since(start)
	if one.id, one.err = t.dir.DB.Save(ctx, m, src); one.err == nil {
		one.err = t.dir.DB.InPlace() // or the run would go on for nothing
	}
	if one.err != nil {
		return one
	}
	one.untidy = t.tidy(&one)
	one.save = time.Since(start)
	return one
}

// tidy gives up what is not to be kept, and finds out what of the rest is
// damaged. What goes wrong with that costs room, and no checkpoint.
func (t *trainer) tidy(one *savedOne) (err error) {
	k, ctx := t.Config.Checkpoint.Keep, t.leisure
	_, one.damaged, err = t.dir.DB.Prune(ctx, checkpoint.Keep{Last: k.Last, Best: k.Best, Every: k.Every})
	if err == nil && !t.saves.untidy {
		one.tidied, err = t.dir.DB.Tidy(ctx)
	}
	if err != nil && errors.Is(err, ctx.Err()) { // the run is to end now: the next one tidies up
		one.tidied, err = false, nil
	}
	return err
}

// pollSave reports a save that has ended meanwhile; it does not wait.
func (t *trainer) pollSave() error {
	select {
	case one := <-t.saves.done: // of a nil channel: never
		return t.saved(one)
	default:
		return nil
	}
}

// awaitSave waits for the save under way.
func (t *trainer) awaitSave() error {
	if t.saves.done == nil {
		return nil
	}
	return t.saved(<-t.saves.done)
}

// saved takes the result of a save in.
func (t *trainer) saved(one savedOne) error {
	s := &t.saves
	s.done = nil
	t.clock.saving(false)
	if one.err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", one.step, one.err)
	}
	t.at.Saved = one.step
	s.count++
	s.longest = max(s.longest, one.save)
	s.sums.copy += one.copy
	s.sums.save += one.save
	t.tellSkipped(one.damaged)
	switch {
	case one.untidy != nil && !s.untidy:
		s.untidy = true
		t.opt.Observer.note(fmt.Sprintf("checkpoint at step %d is saved, though tidying up after it failed, and its file stays larger than it need be: %v", one.step, one.untidy))
	case one.tidied && one.untidy == nil:
		t.opt.Observer.note(fmt.Sprintf("compacted %s", t.dir.DB.Path()))
	}
	t.opt.Observer.saved(Saved{Step: one.step, ID: one.id, Bytes: one.bytes, Time: one.save})
	return nil
}

// tellSkipped notes damage that has not been told of.
func (t *trainer) tellSkipped(list []checkpoint.Skipped) {
	for _, d := range list {
		text := fmt.Sprintf("skipped %v", d)
		if t.saves.told[text] {
			continue
		}
		if t.saves.told == nil {
			t.saves.told = map[string]bool{}
		}
		t.saves.told[text] = true
		t.opt.Observer.note(text)
	}
}

// endSaves waits for the save under way and frees the staging area.
func (t *trainer) endSaves() error {
	err := t.awaitSave()
	if t.saves.stage != nil {
		err = errors.Join(err, t.saves.stage.Close())
		t.saves.stage = nil
		t.saves.list, t.saves.order, t.saves.bytes = nil, nil, 0
	}
	return err
}

// stagedSource is a checkpoint's source: variables as they were when the save
// began.
type stagedSource struct {
	s    *saver
	ctx  context.Context
	at   map[string]int // index of a variable by name
	next int            // how many variables are queued
	area int64          // bytes of those that are, and were not read yet
}

// queue queues the copies that the staging area has room for; one variable is
// let through whatever its size.
func (c *stagedSource) queue() error {
	s := c.s
	for ; c.next < len(s.list); c.next++ {
		i := s.order[c.next]
		n := s.list[i].Meta.Bytes()
		if s.bound > 0 && c.area > 0 && c.area+n > s.room() {
			return nil
		}
		if err := s.stage.Queue(c.ctx, residency.Checkpoint, i); err != nil {
			return err
		}
		c.area += n
	}
	return nil
}

// room is the part of the staging area that saving itself does not take.
func (s *saver) room() int64 { return s.bound - 3*s.txBytes() }

// largest says that one variable alone needs more than the staging area, since
// a device copies it whole; "" where none does.
func (t *trainer) largest() string {
	s := &t.saves
	vars := t.Plan.Graph.Vars
	if s.bound == 0 || len(vars) == 0 {
		return ""
	}
	v := slices.MaxFunc(vars, func(a, b *graph.Value) int { return cmp.Compare(a.Meta.Bytes(), b.Meta.Bytes()) })
	takes := v.Meta.Bytes() + s.bound - s.room()
	if takes <= s.bound {
		return ""
	}
	mib := func(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
	return fmt.Sprintf("a save takes up to %d MiB of host memory and not checkpoint.staging's %d, since %s is copied whole", mib(takes), mib(s.bound), v.Name)
}

// txBytes is the size of a transaction: saving holds up to three of them.
func (s *saver) txBytes() int64 {
	if s.bound == 0 {
		return 0 // as the checkpoint package likes it
	}
	return max(1, s.bound/8)
}

// wait waits for the copies that training could be waiting for.
func (c *stagedSource) wait() error {
	for _, i := range c.s.order[:c.next] {
		if err := c.s.stage.Wait(c.ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *stagedSource) Tensors() []checkpoint.Tensor { return c.s.list }

// Read copies a part of a variable, and lets the variable go behind its last.
func (c *stagedSource) Read(name string, off int64, dst []byte) error {
	i, s := c.at[name], c.s
	if s.bound > 0 && i >= c.next {
		if err := c.queue(); err != nil {
			return err
		}
	}
	if err := s.stage.Wait(c.ctx, i); err != nil {
		return err
	}
	b, err := c.piece(i, off, len(dst))
	if err != nil {
		return err
	}
	copy(dst, b)
	if n := s.list[i].Meta.Bytes(); off+int64(len(dst)) == n && s.bound > 0 {
		c.area -= n
		if err := s.stage.Free(i); err != nil {
			return err
		}
		return c.queue()
	}
	return nil
}

// Lend is Read where the whole state is staged: that stays as it is.
func (c *stagedSource) Lend(name string, off int64, n int) ([]byte, error) {
	i, s := c.at[name], c.s
	if s.bound > 0 {
		return nil, nil
	}
	if err := s.stage.Wait(c.ctx, i); err != nil {
		return nil, err
	}
	return c.piece(i, off, n)
}

// piece is a part of a variable that has been copied. It looks at parameters
// for what is NaN or infinite: a checkpoint of such weights would only look
// like a good one.
func (c *stagedSource) piece(i int, off int64, n int) ([]byte, error) {
	b := c.s.stage.Bytes(i)[off : off+int64(n)]
	if x := &c.s.list[i]; x.Role == graph.Parameter.String() {
		return b, finite(x, off, b)
	}
	return b, nil
}

// finite fails if a piece of a parameter, from byte off on, has a number that
// is not finite.
func finite(x *checkpoint.Tensor, off int64, b []byte) error {
	for i, f := range shape.View[float32](b) {
		if f-f != 0 { // NaN for NaN and for both infinities
			return fmt.Errorf("%s[%d] is %v, %w", x.Name, int(off/4)+i, f, ErrNonFinite)
		}
	}
	return nil
}

// chunkBytes is the size of chunks: small enough for the transactions, and such
// that no element is cut.
func (s *saver) chunkBytes() int {
	if s.bound == 0 {
		return 0
	}
	return int(min(4<<20, s.txBytes()&^63))
}
