package ref

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

var gathers = map[string]kernel{
	"gather":      gather,
	"scatter_add": scatterAdd,
}

// row is the row of a table [V,D] that an id selects.
func row(table Array, id int32) ([]float64, error) {
	n, d := table.Meta.Shape[0], table.Meta.Shape[1]
	if id < 0 || int(id) >= n {
		return nil, fmt.Errorf("id %d is outside a table of %d rows", id, n)
	}
	return table.F[int(id)*d : (int(id)+1)*d], nil
}

func gather(_ graph.Op, in, out []Array) error {
	d := in[0].Meta.Shape[1]
	for i, id := range in[1].I {
		r, err := row(in[0], id)
		if err != nil {
			return err
		}
		copy(out[0].F[i*d:], r)
	}
	return nil
}

func scatterAdd(_ graph.Op, in, out []Array) error {
	d := out[0].Meta.Shape[1]
	for i, id := range in[0].I {
		r, err := row(out[0], id)
		if err != nil {
			return err
		}
		for k := range r {
			r[k] += in[1].F[i*d+k]
		}
	}
	return nil
}
