package shape_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestViewCutsAPartialElementOff(t *testing.T) {
	if got := len(shape.View[int32](make([]byte, 11))); got != 2 {
		t.Errorf("11 bytes view as %d int32, want 2", got)
	}
	if shape.View[int32](nil) != nil || shape.Bytes[int32](nil) != nil {
		t.Error("nothing should view as nil")
	}
}
