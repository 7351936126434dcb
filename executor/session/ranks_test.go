package session

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
)

// level is a device whose results are those of some instructions.
type level struct {
	device.Device
	numerics string
}

func (l level) Spec() device.Spec {
	s := l.Device.Spec()
	s.Numerics = l.numerics
	return s
}

// TestKernelsOfRanks: devices of one kind with other instructions are refused on all ranks, with both and a remedy; other kinds
// are not compared with them.
func TestKernelsOfRanks(t *testing.T) {
	for _, x := range []struct {
		numerics [3]string // of the null devices
		want     string    // "": they go together
	}{
		{[3]string{"avx2", "avx2", "avx2"}, ""},
		{[3]string{"avx2", "avx2", "generic"}, "the kernels of kind null differ: they are avx2 on rank 0, and generic on rank 2: give all ranks the same ISA level with BERTH_CPU"},
	} {
		links := ranks.NewLoop(len(x.numerics), func(int) {})
		var wg sync.WaitGroup
		for rank, l := range links {
			wg.Go(func() {
				c, err := crew.Meet(t.Context(), l, crew.Options{Timeout: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				devs, err := device.Open("null", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
				if err == nil {
					devs[0] = level{devs[0], x.numerics[rank]}
				}
				all, _, of, err := (&held{crew: c}).openOfRanks(devs, err)
				v, told := errors.AsType[*crew.Verdict](err)
				switch {
				case x.want == "" && (err != nil || len(all) != len(links) || of[rank] != rank):
					t.Errorf("rank %d has %d devices of ranks %v: %v", rank, len(all), of, err)
				case x.want != "" && (!told || !strings.Contains(v.Text, x.want)):
					t.Errorf("rank %d: %v, want %q", rank, err, x.want)
				}
				if err := errors.Join(closeAll(all), c.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
