package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

func TestRecord(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	k := Key{Net: "eval", Value: "x", Microbatch: 2, Replica: 1}
	x, err := r.m.Declare(k, shape.F32(2, 3), device.Activation)
	if err != nil {
		t.Fatal(err)
	}
	if x.Name() != "eval/x#2@1" || x.Key() != k || !x.Meta().Equal(shape.F32(2, 3)) || x.Usage() != device.Activation {
		t.Errorf("record is %v", x)
	}
	if again, err := r.m.Declare(k, shape.F32(2, 3), device.Activation); err != nil || again != x {
		t.Errorf("declared again: %v, %v", again, err)
	}
	if _, err := r.m.Declare(k, shape.F32(3, 2), device.Activation); !errors.Is(err, ErrMismatch) {
		t.Errorf("other shape: %v", err)
	}
	if _, err := r.m.Declare(Key{Value: "y"}, shape.Meta{}, device.Activation); !errors.Is(err, ErrMismatch) {
		t.Errorf("no type: %v", err)
	}
	if err := r.m.Fill(x, []byte{1}); !errors.Is(err, ErrMismatch) {
		t.Errorf("short fill: %v", err)
	}
	if err := r.m.Feed(x, r.hostBuffer(5, 'a')); !errors.Is(err, ErrMismatch) {
		t.Errorf("short feed: %v", err)
	}
	if v := x.Version(); v != 0 {
		t.Errorf("version %d before contents", v)
	}
}
