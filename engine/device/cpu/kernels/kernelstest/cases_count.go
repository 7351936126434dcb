package kernelstest

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var countCases = map[string]func(s Source) Sample{
	"outcome": func(s Source) Sample {
		x, t := drawClasses(s)
		return Of(ops.Outcome{Padded: s.padded(t)}, 0, x, t)
	},
	"binary_outcome": func(s Source) Sample {
		x := s.Shape("x", 1, 3, 90)
		return Of(ops.BinaryOutcome{}, 0, s.NonFinite(s.Normal(x...)), s.Floats(0, 1, x...))
	},
	"rank": func(s Source) Sample {
		x, t := drawClasses(s)
		for i, v := range x.F { // so that there are equals
			x.F[i] = math.Round(2*v) / 2
		}
		return Of(ops.Rank{Padded: s.padded(t)}, 0, s.NonFinite(x), t)
	},
	"tally": func(s Source) Sample {
		n := s.Size("counts", 9)
		indexes := s.IDs(n, s.Shape("indexes", 0, 2, 300)...)
		return Of(ops.Tally{Padded: s.padded(indexes)}, 0, s.IDs(99, n), indexes)
	},
}
