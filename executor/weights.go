package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// WeightsHash is SHA-256, in hex, over parameters and batchnorm statistics in
// bytewise order of their names: each one's name, then its little-endian bytes.
// It pulls them back for [ledger.Epoch], two at a time on the host.
func (p *Program) WeightsHash(ctx context.Context) (string, error) {
	return p.WeightsHashFrom(ctx, nil)
}

// WeightsHashFrom is WeightsHash on one of several ranks. read gives it bytes of variables of which another rank has
// the newest contents: v is of Graph().Vars[i].
func (p *Program) WeightsHashFrom(ctx context.Context, read func(rank, i int, off int64, dst []byte) error) (string, error) {
	var vars []*graph.Value
	for _, v := range p.Graph().Vars {
		if v.Role == graph.Parameter || v.Role == graph.Statistic {
			vars = append(vars, v)
		}
	}
	slices.SortFunc(vars, func(a, b *graph.Value) int { return strings.Compare(a.Name, b.Name) })
	var own []*graph.Value
	var ts []*residency.Tensor
	for _, v := range vars {
		if read == nil || p.Here(v.Name) {
			t, err := p.tensorOf(v)
			if err != nil {
				return "", err
			}
			own, ts = append(own, v), append(ts, t)
		}
	}
	s := p.rt.Residency.NewStaging(ts...)
	defer s.Close()
	h := sha256.New()
	queued := 0
	queue := func() error { // a copy runs while the one before is hashed
		if queued == len(own) {
			return nil
		}
		queued++
		return s.Queue(ctx, ledger.Epoch, queued-1)
	}
	if err := queue(); err != nil {
		return "", err
	}
	for at := 0; len(vars) > 0; vars = vars[1:] {
		v := vars[0]
		h.Write([]byte(v.Name))
		if at == len(own) || own[at] != v {
			if err := p.hashElsewhere(h, v, read); err != nil {
				return "", err
			}
			continue
		}
		if err := queue(); err != nil {
			return "", err
		}
		if err := s.Wait(ctx, at); err != nil {
			return "", err
		}
		h.Write(s.Bytes(at))
		s.Free(at)
		at++
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// tensorOf is the tensor of a variable that this rank is asked for.
func (p *Program) tensorOf(v *graph.Value) (*residency.Tensor, error) {
	if t := p.Var(v.Name); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("BUG: %s is not on this rank, which others ask for it", v.Name)
}

// hashed is the bytes of another rank's variable that are hashed at once.
const hashed = 4 << 20

// hashElsewhere hashes a variable of which another rank has the newest contents.
func (p *Program) hashElsewhere(h io.Writer, v *graph.Value, read func(rank, i int, off int64, dst []byte) error) error {
	n, i, rank := v.Meta.Bytes(), slices.Index(p.Graph().Vars, v), p.Holder(v.Name)
	b := make([]byte, min(n, hashed))
	for off := int64(0); off < n; off += int64(len(b)) {
		b = b[:min(int64(len(b)), n-off)]
		if err := read(rank, i, off, b); err != nil {
			return err
		}
		h.Write(b)
	}
	return nil
}

// VarReader brings variables of this rank out, one at a time. Its maker closes it.
type VarReader struct {
	prog    *Program
	why     ledger.Reason
	staging *residency.Staging // of the variable; nil: none is out
	at      int                // its index in the program's Graph().Vars
}

// NewVarReader has brought nothing out yet.
func (p *Program) NewVarReader(why ledger.Reason) *VarReader { return &VarReader{prog: p, why: why} }

// Read copies bytes of the variable Graph().Vars[i], from off on.
func (r *VarReader) Read(ctx context.Context, i int, off int64, dst []byte) error {
	if r.staging == nil || r.at != i {
		r.Close()
		t, err := r.prog.tensorOf(r.prog.Graph().Vars[i])
		if err != nil {
			return err
		}
		r.staging, r.at = r.prog.rt.Residency.NewStaging(t), i
		if err := r.staging.Queue(ctx, r.why, 0); err != nil {
			return err
		}
		if err := r.staging.Wait(ctx, 0); err != nil {
			return err
		}
	}
	copy(dst, r.staging.Bytes(0)[off:])
	return nil
}

// Close frees what was brought out.
func (r *VarReader) Close() {
	if r.staging != nil {
		r.staging.Close()
		r.staging = nil
	}
}

// Floats pulls a float32 tensor back for a reason, and returns its elements.
func (r *Runtime) Floats(ctx context.Context, why ledger.Reason, t *residency.Tensor) ([]float32, error) {
	return r.AppendFloats(ctx, nil, why, t)
}

// AppendFloats is Floats that appends to a slice. Of an int32 tensor, it appends the
// elements' bits.
func (r *Runtime) AppendFloats(ctx context.Context, out []float32, why ledger.Reason, t *residency.Tensor) ([]float32, error) {
	if err := r.Residency.PullBack(ctx, why, t); err != nil {
		return nil, err
	}
	err := r.Residency.View(t, func(b []byte) error {
		out = append(out, shape.View[float32](b)...)
		return nil
	})
	return out, err
}
