package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/residency"
)

// Contents is where a program's variables get their first contents.
type Contents struct {
	// Write writes all of dst, which is the contents of a variable.
	Write func(v *graph.Value, dst []byte) error
	// Sequence has contents of variables, in place of Write, in a store that can
	// only be read in order. Nil means of none.
	Sequence Sequence
	// Again says that both can be used from any goroutine until the runtime is
	// closed. A variable that no task writes is then read again whenever a device
	// needs it, and the host never keeps it.
	Again bool
	// Keeps reports whether a variable keeps the contents that another program of the runtime has
	// given it. Nil: none does.
	Keeps func(v *graph.Value) bool
}

// Sequence is variables in a store that can only be read in order. Its entries have
// their names.
type Sequence interface {
	residency.Sequence
	Names() []string // of all entries, in their order
}

// Init gives every variable its contents, and starts copying variables and
// constants to the devices that use them. It calls write for one variable after
// the other, to write all of dst. The host's bytes of each are freed as soon as
// they have been copied, so the host has few of them at a time, and none at the
// end. A tensor that finds no room on its device stays on the host.
func (p *Program) Init(ctx context.Context, write func(v *graph.Value, dst []byte) error) error {
	return p.InitFrom(ctx, Contents{Write: write})
}

// InitFrom is Init with contents of any kind. A sequence is read to its end. Variables of the
// runtime's base keep the contents that another runtime has given them.
func (p *Program) InitFrom(ctx context.Context, c Contents) error {
	if err := p.rt.usable(); err != nil {
		return err
	}
	keeps := c.Keeps
	c.Keeps = func(v *graph.Value) bool {
		t := p.Var(v.Name)
		return t != nil && t.Filled() || keeps != nil && keeps(v)
	}
	return p.rt.Residency.FillBase(ctx, func() error { return p.initFrom(ctx, c) })
}

// initFrom gives the variables contents that nothing else gives them.
func (p *Program) initFrom(ctx context.Context, c Contents) error {
	in := &initialiser{Program: p, Contents: c, needs: p.lastingNeeds(), named: map[string]bool{}}
	if c.Again {
		in.again = p.unwritten()
	}
	if err := in.variables(ctx); err != nil {
		return err
	}
	if p.rt.exchange != nil {
		for _, v := range p.Graph().Vars {
			p.hold(v)
		}
	}
	constants := slices.SortedFunc(maps.Keys(in.needs), func(a, b *residency.Tensor) int { return strings.Compare(a.Name(), b.Name()) })
	for _, t := range constants {
		if err := p.rt.Residency.MoveIn(ctx, in.needs[t]); err != nil {
			return err
		}
	}
	return p.rt.Residency.AwaitMoves(ctx)
}

// Replace gives a variable other contents, also one that the program has in ranges, and
// copies them in. ok is false if there is none of that name. No step may be queued. b has
// the bytes of the whole variable and stays the caller's. All ranks give the same.
func (p *Program) Replace(ctx context.Context, name string, b []byte) (ok bool, err error) {
	needs := p.lastingNeeds()
	for _, v := range p.Graph().Vars {
		whole, t := v.Whole(), p.Var(v.Name)
		if whole.Name != name {
			continue
		}
		if int64(len(b)) != whole.Meta.Bytes() {
			return true, fmt.Errorf("%s is %v, but %d bytes were given for it", name, whole.Meta, len(b))
		}
		if ok = true; t == nil {
			continue // of other ranks
		}
		if err := p.rt.Residency.Fill(t, b[v.Offset():][:v.Meta.Bytes()]); err != nil {
			return true, err
		}
		if err := p.rt.Residency.MoveIn(ctx, needs[t]); err != nil {
			return true, err
		}
	}
	p.holdNew(name)
	return ok, p.rt.Residency.AwaitMoves(ctx)
}

// initialiser gives the variables of a program their first contents. A call of
// [Program.InitFrom] owns it.
type initialiser struct {
	*Program
	Contents
	needs map[*residency.Tensor][]residency.Need // of those that have no contents yet, and of constants
	named map[string]bool                        // the variables in Sequence
	again map[*residency.Tensor]bool             // to be read whenever a device needs them
}

// variables gives all variables their contents, those in Sequence first and in its
// order.
func (p *initialiser) variables(ctx context.Context) error {
	if p.Sequence != nil {
		if err := p.sequence(ctx); err != nil {
			return err
		}
	}
	for _, v := range p.Graph().Vars {
		if p.named[v.Name] || p.Keeps(v) {
			continue
		}
		t, err := p.Var(v.Name), error(nil)
		if t == nil {
			continue // of other ranks
		}
		if p.again[t] {
			err = p.rt.Residency.FromStore(t, contents{v, p.Write}, v.Name)
		} else {
			err = p.rt.Residency.FillWith(t, func(dst []byte) error { return p.Write(v, dst) })
		}
		if err == nil {
			err = p.moveIn(ctx, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sequence gives the variables in Sequence their contents, and reads it to its end.
func (p *initialiser) sequence(ctx context.Context) error {
	kept := map[string]bool{}
	for _, v := range p.Graph().Vars {
		kept[v.Name] = p.Keeps(v)
	}
	all := slices.DeleteFunc(p.Sequence.Names(), func(name string) bool { return p.Var(name) == nil })
	names := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return kept[name] })
	again := map[string]*residency.Tensor{}
	if len(names) == 0 && len(all) > 0 { // it is not read for nothing
		return nil
	}
	for _, name := range names {
		p.named[name] = true
		if t := p.Var(name); p.again[t] {
			again[name] = t
		}
	}
	if err := p.rt.Residency.FromSequence(p.Sequence, again); err != nil {
		return err
	}
	if err := p.Sequence.Rewind(); err != nil {
		return err
	}
	for _, name := range names {
		t := p.Var(name)
		if again[name] == nil {
			if err := p.fill(ctx, t, name); err != nil {
				return err
			}
		}
		if err := p.moveIn(ctx, t); err != nil {
			return err
		}
	}
	if err := p.advance(ctx, ""); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// fill gives a tensor the contents of the entry of that name.
func (p *initialiser) fill(ctx context.Context, t *residency.Tensor, name string) error {
	if err := p.advance(ctx, name); err != nil {
		return fmt.Errorf("first contents of %s: %w", name, err)
	}
	return p.rt.Residency.FillWith(t, p.Sequence.Read)
}

// advance moves Sequence to the entry of that name, or to its end.
func (p *initialiser) advance(ctx context.Context, name string) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if at, _, err := p.Sequence.Next(ctx); err != nil || at == name {
			return err
		}
	}
}

// moveIn starts copying a tensor to the devices that use it.
func (p *initialiser) moveIn(ctx context.Context, t *residency.Tensor) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	needs := p.needs[t]
	delete(p.needs, t)
	return p.rt.Residency.MoveIn(ctx, needs)
}

// contents is a store with the contents of one variable.
type contents struct {
	v     *graph.Value
	write func(v *graph.Value, dst []byte) error
}

// Read writes them to dst.
func (c contents) Read(_ string, dst []byte) error { return c.write(c.v, dst) }

// unwritten lists the lasting tensors that no task writes.
func (p *Program) unwritten() map[*residency.Tensor]bool {
	list := maps.Clone(p.lasting)
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				if n.Mode&residency.Write != 0 {
					delete(list, n.Tensor)
				}
			}
		}
	}
	return list
}

// lastingNeeds lists, per variable or constant, the devices on which tasks read
// it.
func (p *Program) lastingNeeds() map[*residency.Tensor][]residency.Need {
	needs := map[*residency.Tensor][]residency.Need{}
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				if !p.lasting[n.Tensor] || n.Mode&residency.Read == 0 {
					continue
				}
				if n.Mode = residency.Read; !slices.Contains(needs[n.Tensor], n) {
					needs[n.Tensor] = append(needs[n.Tensor], n)
				}
			}
		}
	}
	return needs
}
