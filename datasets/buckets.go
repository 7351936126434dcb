package datasets

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// mostBuckets bounds the number of buckets: each is planned and compiled.
const mostBuckets = 32

// bucketNames name the orders of buckets: as many as there can be.
var bucketNames = func() (names [mostBuckets]string) {
	for i := range names {
		names[i] = fmt.Sprint("bucket ", i)
	}
	return names
}()

// checkBuckets refuses buckets that samples cannot be padded to.
func checkBuckets(buckets []int) error {
	switch {
	case len(buckets) == 0 || len(buckets) > mostBuckets:
		return blame("buckets", fmt.Errorf("%w: there are %d buckets: give 1 to %d", ErrSpec, len(buckets), mostBuckets))
	case buckets[0] < 1 || !slices.IsSorted(buckets) || len(slices.Compact(slices.Clone(buckets))) < len(buckets):
		return blame("buckets", fmt.Errorf("%w: buckets are %v: give numbers of positions, the fewest first", ErrSpec, buckets))
	}
	return nil
}

// PowerBuckets are 16, 32, 64 and so on, up to a number of positions.
func PowerBuckets(longest int) (buckets []int) {
	const least = 16
	for size := least; size < longest; size *= 2 {
		buckets = append(buckets, size)
	}
	return append(buckets, longest)
}

// bucketOf is the index of the least bucket with room for a length.
func bucketOf(buckets []int, length int) int {
	for i, size := range buckets {
		if length <= size {
			return i
		}
	}
	panic(fmt.Sprintf("BUG: a sample of %d positions is in no bucket of %v", length, buckets))
}

// PerPosition reports whether a target of samples with different lengths has an answer for
// each position: its first axis counts them.
func PerPosition(target shape.Meta) bool {
	rank := target.Shape.Rank()
	return rank > 1 || rank == 1 && target.DType == shape.Int32
}

// Sized is the metadata of a sample of so many positions.
func Sized(m shape.Meta, positions int) shape.Meta {
	m.Shape = slices.Clone(m.Shape)
	m.Shape[0] = positions
	return m
}
