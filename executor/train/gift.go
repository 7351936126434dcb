package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
)

// fill gives the variables their first contents. With lends, those are in a checkpoint or a file that rank 0 alone reads:
// once for all others, and once for itself.
func (a *attempt) fill(ctx context.Context, c executor.Contents, lends bool) error {
	if !lends {
		return a.prog.InitFrom(ctx, c)
	}
	var order []int
	if a.leads() {
		order = a.orderOf(c)
	}
	if err := a.shareJSON(ctx, "the order of the variables", &order); err != nil {
		return err
	}
	if a.leads() {
		return a.give(ctx, c, order)
	}
	g := &gift{a: a, ctx: context.WithoutCancel(ctx), order: order, next: -1}
	err := a.prog.InitFrom(ctx, executor.Contents{Sequence: g})
	return errors.Join(err, g.pass())
}

// orderOf are the variables in the order in which contents can be read: those in a sequence in its own, and the others.
func (a *attempt) orderOf(c executor.Contents) (order []int) {
	vars := a.prog.Graph().Vars
	if c.Sequence != nil {
		for _, name := range c.Sequence.Names() {
			order = append(order, slices.IndexFunc(vars, func(v *graph.Value) bool { return v.Name == name }))
		}
	}
	listed := make([]bool, len(vars))
	for _, i := range order {
		listed[i] = true
	}
	for i := range vars {
		if !listed[i] {
			order = append(order, i)
		}
	}
	return order
}

// What rank 0 says of the variables that it sends, in place of the number of one whose contents follow.
const (
	stillReads = -1 // there is more to come
	hasGiven   = -2 // there is no more
	cannotGive = -3 // and why: a text of so many bytes follows
)

// noticeBytes is the length of a number of a variable, or of what is said in its place, with a number of bytes.
const noticeBytes = 16

// signs is how often rank 0 says that it is still reading its own.
const signs = 10 * time.Second

// give is fill on rank 0. Whatever comes of it, the others hear of its end.
func (a *attempt) give(ctx context.Context, c executor.Contents, order []int) error {
	all := context.WithoutCancel(ctx)
	err := a.giveEach(ctx, c, order)
	if err == nil {
		own := make(chan error, 1)
		go func() { own <- a.prog.InitFrom(ctx, c) }()
		for read := false; !read; {
			select {
			case err = <-own:
				read = true
			case <-time.After(signs):
				err = errors.Join(err, a.notice(all, stillReads, nil))
			}
		}
	}
	if err != nil {
		return errors.Join(err, a.notice(all, cannotGive, []byte(err.Error())))
	}
	return a.notice(all, hasGiven, nil)
}

// giveEach reads each variable that another rank has, and sends it to those.
func (a *attempt) giveEach(ctx context.Context, c executor.Contents, order []int) error {
	inSequence := 0
	if c.Sequence != nil {
		if err := c.Sequence.Rewind(); err != nil {
			return err
		}
		inSequence = len(c.Sequence.Names())
	}
	var b []byte
	for k, i := range order {
		v := a.prog.Graph().Vars[i]
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if k < inSequence {
			if _, _, err := c.Sequence.Next(ctx); err != nil {
				return fmt.Errorf("first contents of %s: %w", v.Name, err)
			}
		}
		if !slices.ContainsFunc(a.others(), func(rank int) bool { return a.prog.Has(v.Name, rank) }) {
			continue
		}
		n := int(v.Meta.Bytes())
		b = slices.Grow(b[:0], n)[:n]
		var err error
		if k < inSequence {
			err = c.Sequence.Read(b)
		} else {
			err = c.Write(v, b)
		}
		if err == nil {
			err = a.notice(context.WithoutCancel(ctx), i, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// others are the ranks but for rank 0.
func (a *attempt) others() (list []int) {
	for rank := 1; rank < a.crew().Size(); rank++ {
		list = append(list, rank)
	}
	return list
}

// notice sends what rank 0 says, and bytes: the contents of a variable to those that have it, and other notices to all.
func (a *attempt) notice(ctx context.Context, item int, b []byte) error {
	var head [noticeBytes]byte
	binary.LittleEndian.PutUint64(head[:], uint64(item))
	binary.LittleEndian.PutUint64(head[8:], uint64(len(b)))
	for _, rank := range a.others() {
		to := head
		if item >= 0 && !a.prog.Has(a.prog.Graph().Vars[item].Name, rank) {
			still := stillReads
			binary.LittleEndian.PutUint64(to[:], uint64(still))
			binary.LittleEndian.PutUint64(to[8:], 0)
		}
		if err := a.crew().Send(ctx, rank, "that it takes variables", to[:]); err != nil {
			return err
		}
		if len(b) > 0 && to == head {
			if err := a.crew().Send(ctx, rank, "that it takes variables", b); err != nil {
				return err
			}
		}
	}
	return nil
}

// gift is the variables that rank 0 sends this rank. It implements [executor.Sequence].
type gift struct {
	a     *attempt
	ctx   context.Context // without an end: rank 0 sends all, whatever becomes of this rank
	order []int
	next  int // the variable whose contents come; -1: a notice does
	over  bool
}

// Names lists the variables of this rank.
func (g *gift) Names() (names []string) {
	for _, i := range g.order {
		if name := g.a.prog.Graph().Vars[i].Name; g.a.prog.Var(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// Rewind does nothing: the sequence is read once.
func (g *gift) Rewind() error { return nil }

// Next waits for the next variable.
func (g *gift) Next(context.Context) (name string, bytes int64, err error) {
	if g.next >= 0 {
		if err := g.Read(make([]byte, g.a.prog.Graph().Vars[g.next].Meta.Bytes())); err != nil {
			return "", 0, err
		}
	}
	for !g.over {
		var head [noticeBytes]byte
		if err := g.recv(head[:]); err != nil {
			return "", 0, err
		}
		item, n := int(int64(binary.LittleEndian.Uint64(head[:]))), int64(binary.LittleEndian.Uint64(head[8:]))
		switch item {
		case stillReads:
		case hasGiven:
			g.over = true
		case cannotGive:
			g.over = true
			text := make([]byte, n)
			if err := g.recv(text); err != nil {
				return "", 0, err
			}
			return "", 0, fmt.Errorf("%s: %s", g.a.crew().Name(0), text)
		default:
			g.next = item
			return g.a.prog.Graph().Vars[item].Name, n, nil
		}
	}
	return "", 0, io.EOF
}

// Read takes the contents of the variable that Next told of.
func (g *gift) Read(dst []byte) error {
	g.next = -1
	return g.recv(dst)
}

func (g *gift) recv(dst []byte) error {
	err := g.a.crew().Recv(g.ctx, 0, "variables", dst)
	g.over = g.over || err != nil
	return err
}

// pass takes what is left, after a failure on this rank.
func (g *gift) pass() error {
	for {
		if _, _, err := g.Next(g.ctx); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
