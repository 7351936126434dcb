package configs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// buckets is a list of sizes, or `powers`, which is nil until resolveBuckets lists them.
type buckets struct{}

// listedBuckets is the list. Each bucket is planned and compiled, so there are few.
var listedBuckets = ints{each: positive, some: true}

// mostBuckets bounds the list.
const mostBuckets = 32

func (buckets) expect() string { return "powers, or a list such as [64, 128, 256]" }

func (b buckets) decode(d *decoder, n *yaml.Node, path string, dst any) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "powers":
		*dst.(*[]int) = nil
	case n.Kind != yaml.SequenceNode || len(n.Content) == 0:
		d.mismatch(n, path, b.expect())
	case len(n.Content) > mostBuckets:
		d.mismatch(n, path, fmt.Sprintf("at most %d numbers: the model is planned and compiled for each of them", mostBuckets))
	default:
		listedBuckets.decode(d, n, path, dst)
	}
}

func (buckets) encode(src any, keep func(*key) bool) *yaml.Node {
	if *src.(*[]int) == nil {
		return plain("powers")
	}
	return listedBuckets.encode(src, keep)
}

// resolveBuckets sets the sizes of lines of different lengths and the longest of them,
// each from the other if only one is given.
func resolveBuckets(d *decoder, c *Config) {
	const least, usual = 16, 256
	data := &c.Data
	if data.Source != "lines" {
		return
	}
	if n := len(data.Buckets); n > 0 && data.Context == 0 {
		data.Context = data.Buckets[n-1]
	}
	if data.Context == 0 {
		data.Context = c.Model.Context
	}
	if data.Context == 0 {
		data.Context = usual
	}
	if data.Buckets == nil {
		for size := least; size < data.Context; size *= 2 {
			data.Buckets = append(data.Buckets, size)
		}
		data.Buckets = append(data.Buckets, data.Context)
	}
	for i, size := range data.Buckets[1:] {
		if size <= data.Buckets[i] {
			d.against([]string{"data.buckets"}, "%d comes after %d; give the fewest tokens first, each number once", size, data.Buckets[i])
			return
		}
	}
	if last := data.Buckets[len(data.Buckets)-1]; last != data.Context {
		d.against([]string{"data.context", "data.buckets"}, "the largest of data.buckets is %d, and data.context is %d; make them equal, or leave data.context out", last, data.Context)
	}
}
