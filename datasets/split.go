package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/internal/units"
)

// splitRandomly divides the rows of t into a training and a validation part.
// Which row goes where depends on the seed and the number of rows alone.
func splitRandomly(t *table, s Spec, fraction float64) (train, val *Part, err error) {
	n := trainCount(t.rows, fraction)
	if n == 0 || (fraction < 1 && n == t.rows) {
		return nil, nil, blame("split", fmt.Errorf("%w: split %v leaves one part empty (samples: %s): add samples, or use split 1", ErrTooFew, fraction, units.Thousands(t.rows)))
	}
	train = &Part{table: t, count: n}
	if n < t.rows {
		order := rng.NewPermutation(t.rows, rng.Named(s.Seed, "split"))
		train.split, train.isSplit = order, true
		val = &Part{table: t, split: order, isSplit: true, first: n, count: t.rows - n}
	}
	shuffle(train, s)
	return train, val, nil
}

// trainCount is the number of rows to train on, rounded down.
func trainCount(rows int, fraction float64) int {
	return min(rows, int(float64(rows)*fraction))
}

// shuffle gives a training part the order that s asks for.
func shuffle(p *Part, s Spec) { p.shuffle, p.seed = !s.KeepOrder, s.Seed }

// fingerprint hashes the options of s that decide its samples and their order,
// and the columns of each table, until ctx is done.
func fingerprint(ctx context.Context, s Spec, options any, tables ...*table) (string, error) {
	return keyedPrint(ctx, s, options, nil, tables...)
}

// keyedPrint is fingerprint of a table whose rows are divided by keys.
func keyedPrint(ctx context.Context, s Spec, options any, keys *rowKeys, tables ...*table) (string, error) {
	h := sha256.New()
	if s.Division != nil {
		s.Division.print(h, keys)
	}
	fmt.Fprintf(h, "%s split %v seed %d keep %v %+v\n", s.Source, s.Split, s.Seed, s.KeepOrder, options)
	for _, t := range tables {
		fmt.Fprintf(h, "%d rows\n", t.rows)
		if t.sequences != nil {
			if err := t.sequences.of.hash(ctx, t.sequences.buckets, h); err != nil {
				return "", err
			}
			continue
		}
		for i := range t.columns {
			if err := t.columns[i].hash(ctx, h); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
