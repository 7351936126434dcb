package eager

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Close names the lines that made what is still held, also of results in an argument's memory,
// and of no tensor that was consumed.
func TestPlaces(t *testing.T) {
	for _, places := range []bool{false, true} {
		devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(devs, ContextOptions{Places: places})
		if err != nil {
			t.Fatal(err)
		}
		var held []Tensor
		line := Caller(0).Pos().Line
		for range 3 {
			held = append(held, c.One(ops.Unary{Fn: "relu"}, c.FromBytes(shape.F32(2), make([]byte, 8), "")))
		}
		held = append(held, c.One(ops.Unary{Fn: "neg"}, held[0].Ref()))
		held = append(held, held[1].CopyTo("cpu:0"))
		err = c.Close()
		fails(t, err, nil, "5 tensors are still held, with 40 bytes")
		for k, n := range map[int]int{2: 3, 4: 1, 5: 1} {
			if at := fmt.Sprintf("places_test.go:%d (%d)", line+k, n); strings.Contains(err.Error(), at) != places {
				t.Errorf("error %v with places %v, expected %s with them", err, places, at)
			}
		}
		if !places {
			fails(t, err, nil, "ContextOptions.Places")
		}
		for _, x := range held {
			err = x.Release()
		}
		if err := errors.Join(err, devs[0].Close()); err != nil {
			t.Error(err)
		}
	}
}
