package boundary

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/residency/ledger"
)

// Lead is Pull on rank 0 of c; nil: this process is alone. The rank that has the ring sends it: all call Lead. On others the
// values are nil, and so are those that the program does not record.
func (r Rings) Lead(ctx context.Context, c *crew.Crew, why ledger.Reason, name string) (Values, error) {
	at := slices.IndexFunc(r.Program.Graph().Vars, func(v *graph.Value) bool { return v.Name == name })
	if at < 0 {
		return nil, nil
	}
	of := r.Program.Holder(name)
	switch {
	case c.Rank() == of:
		v, err := r.Pull(ctx, why, name)
		if of == 0 || err != nil {
			return v, err
		}
		return nil, c.Send(ctx, 0, name, shape.Bytes(v))
	case c.Rank() > 0:
		return nil, nil
	}
	v := make(Values, r.Program.Graph().Vars[at].Meta.Elems())
	return v, c.Recv(ctx, of, name, shape.Bytes(v))
}

// WeightsHash is [executor.Program.WeightsHash] on rank 0 of c, to which the other ranks lend what they have; nil: this process is
// alone. All call it. On others it is "".
func WeightsHash(ctx context.Context, p *executor.Program, c *crew.Crew) (hash string, err error) {
	switch {
	case c == nil:
		return p.WeightsHash(ctx)
	case c.Rank() > 0:
		r := p.NewVarReader(ledger.Epoch)
		defer r.Close()
		return "", c.Lend(ctx, 0, func(i int, off int64, dst []byte) error { return r.Read(ctx, i, off, dst) })
	}
	from := map[int]*crew.Borrower{}
	for rank := 1; rank < c.Size(); rank++ {
		from[rank] = c.Borrow(rank)
	}
	hash, err = p.WeightsHashFrom(ctx, func(rank, i int, off int64, dst []byte) error {
		return from[rank].Read(ctx, i, off, dst)
	})
	for rank := 1; rank < c.Size(); rank++ {
		err = errors.Join(err, from[rank].End(ctx))
	}
	return hash, err
}
