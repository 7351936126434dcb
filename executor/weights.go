package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	var vars []*graph.Value
	for _, v := range p.Graph().Vars {
		if v.Role == graph.Parameter || v.Role == graph.Statistic {
			vars = append(vars, v)
		}
	}
	slices.SortFunc(vars, func(a, b *graph.Value) int { return strings.Compare(a.Name, b.Name) })
	ts := make([]*residency.Tensor, len(vars))
	for i, v := range vars {
		ts[i] = p.Var(v.Name)
	}
	s := p.rt.Residency.NewStaging(ts...)
	defer s.Close()
	h := sha256.New()
	for i := range len(vars) + 1 {
		if i < len(vars) { // its copy runs while the one before is hashed
			if err := s.Queue(ctx, ledger.Epoch, i); err != nil {
				return "", err
			}
		}
		if i == 0 {
			continue
		}
		if err := s.Wait(ctx, i-1); err != nil {
			return "", err
		}
		h.Write([]byte(vars[i-1].Name))
		h.Write(s.Bytes(i - 1))
		s.Free(i - 1)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
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
