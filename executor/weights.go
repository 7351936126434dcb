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
)

// WeightsHash is SHA-256, in hex, over parameters and batchnorm statistics in
// bytewise order of their names: each one's name, then its little-endian bytes.
// It pulls them back for [residency.Epoch].
func (p *Program) WeightsHash(ctx context.Context) (string, error) {
	var vars []*graph.Value
	var ts []*residency.Tensor
	for _, v := range p.Graph().Vars {
		if v.Role == graph.Parameter || v.Role == graph.Statistic {
			vars = append(vars, v)
			ts = append(ts, p.Var(v.Name))
		}
	}
	m := p.rt.Residency
	if err := m.PullBack(ctx, residency.Epoch, ts...); err != nil {
		return "", err
	}
	slices.SortFunc(vars, func(a, b *graph.Value) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, v := range vars {
		h.Write([]byte(v.Name))
		err := m.View(p.Var(v.Name), func(b []byte) error {
			h.Write(b)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Floats pulls a float32 tensor back for a reason, and returns its elements.
func (r *Runtime) Floats(ctx context.Context, why residency.Reason, t *residency.Tensor) ([]float32, error) {
	if err := r.Residency.PullBack(ctx, why, t); err != nil {
		return nil, err
	}
	var out []float32
	err := r.Residency.View(t, func(b []byte) error {
		out = append(out, shape.View[float32](b)...)
		return nil
	})
	return out, err
}
