package models_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// Contents that are drawn in pieces are those of the whole, and drawing ends when it is
// asked to.
func TestFillInPieces(t *testing.T) {
	const n = 1<<20 + 6
	for kind, whole := range map[graph.InitKind]func([]float32, rng.Key){
		graph.Uniform: func(f []float32, k rng.Key) { rng.Uniform(f, k, -2, 2) },
		graph.Normal:  func(f []float32, k rng.Key) { rng.Normal(f, k, 2) },
	} {
		v := &graph.Value{Name: "w", Meta: shape.F32(n), Init: graph.Init{Kind: kind, A: 2}}
		want := make([]float32, n)
		whole(want, rng.Named(3, "w"))
		asked, got := 0, make([]float32, n)
		err := models.FillUntil(v, 3, shape.Bytes(got), func() error { asked++; return nil })
		if err != nil || asked != 2 || !slices.Equal(got, want) {
			t.Errorf("%v: asked %d times, %v; equal: %t", kind, asked, err, slices.Equal(got, want))
		}
		stored := make([]uint16, n)
		ops.NarrowBF16(stored, want)
		halves := &graph.Value{Name: "w", Meta: shape.BF16(n), Init: v.Init}
		if raw := make([]uint16, n); models.FillUntil(halves, 3, shape.Bytes(raw), nil) != nil || !slices.Equal(raw, stored) {
			t.Errorf("%v: as bfloat16, other numbers", kind)
		}
		parameter := &graph.Value{Name: "w/ema", Meta: v.Meta, Init: v.Init, Role: graph.Average}
		for from := range 9 { // a range of an average begins anywhere
			part := &graph.Value{Name: "a range", Meta: shape.F32(from + 2), Init: v.Init, Role: graph.Average, Range: &graph.Range{Of: parameter, From: from}}
			if raw := make([]float32, from+2); models.FillUntil(part, 3, shape.Bytes(raw), nil) != nil || !slices.Equal(raw, want[from:][:from+2]) {
				t.Errorf("%v: other numbers from element %d on", kind, from)
			}
		}
		const width = 37
		rows := n / width
		blocks := make([]byte, rows*shape.BlocksBytes(width))
		for i := range rows {
			ops.NarrowInt8(blocks[i*shape.BlocksBytes(width):], want[i*width:][:width])
		}
		eighths := &graph.Value{Name: "w", Meta: shape.I8Block(rows, width), Init: v.Init}
		if raw := make([]byte, len(blocks)); models.FillUntil(eighths, 3, raw, nil) != nil || !slices.Equal(raw, blocks) {
			t.Errorf("%v: as int8, other numbers", kind)
		}
		if err := models.FillUntil(v, 3, shape.Bytes(got), func() error { return io.EOF }); !errors.Is(err, io.EOF) {
			t.Errorf("%v: stopped with %v", kind, err)
		}
	}
}

func TestInitialisationOfGPT(t *testing.T) {
	g := train(t, gpt(models.GPTOptions{Vocab: 300, Context: 128, Layers: 3, Heads: 4, Width: 64}), adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	for name, a := range fresh(g, 5) {
		v := g.Find(name)
		if v.Role != graph.Parameter {
			continue
		}
		mean, std, largest := moments(a.F)
		switch {
		case strings.HasSuffix(name, ".bias"):
			if largest != 0 {
				t.Errorf("%s is not 0 but up to %v", name, largest)
			}
		case strings.Contains(name, "ln_"):
			if mean != 1 || std != 0 {
				t.Errorf("%s is %v±%v, expected 1", name, mean, std)
			}
		default:
			want := 0.02
			if strings.HasSuffix(name, "c_proj.weight") {
				want = 0.02 / math.Sqrt(2*3)
			}
			n := float64(len(a.F)) // four standard errors of mean and standard deviation
			if math.Abs(mean) > 4*want/math.Sqrt(n) || math.Abs(std-want) > 4*want/math.Sqrt(2*n) || largest > 7*want {
				t.Errorf("%s is %.2g±%.4g up to %.2g, expected 0±%.4g", name, mean, std, largest, want)
			}
		}
	}
}

func TestInitialisationAsPyTorchs(t *testing.T) {
	s := models.Spec{Input: shape.F32(4, 8, 8), Target: shape.I32(), Loss: "cross_entropy", Layers: models.Stack{
		models.Named{Name: "conv", Layer: models.Conv2D{Channels: 256, Kernel: 3, Groups: 2, Padding: 1}},
		models.Named{Name: "bn", Layer: models.BatchNorm{}}, models.Named{Name: "pool", Layer: models.GlobalAvgPool{}},
		models.Named{Name: "fc", Layer: models.Dense{Units: 400}},
	}}
	g := train(t, s, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	st := fresh(g, 5)
	for name, fanIn := range map[string]float64{"conv.weight": 2 * 9, "conv.bias": 2 * 9, "fc.weight": 256, "fc.bias": 256} {
		mean, std, largest := moments(st[name].F)
		bound, n := 1/math.Sqrt(fanIn), float64(len(st[name].F))
		if largest > bound || largest < bound*(1-10/n) || math.Abs(mean) > 4*bound/math.Sqrt(3*n) || math.Abs(std-bound/math.Sqrt(3)) > 2*bound/math.Sqrt(n) {
			t.Errorf("%s is %.2g±%.4g up to %.4g, expected uniform within %.4g", name, mean, std, largest, bound)
		}
	}
	for name, want := range map[string]float64{"bn.weight": 1, "bn.bias": 0, "bn.running_mean": 0, "bn.running_var": 1} {
		if mean, std, _ := moments(st[name].F); mean != want || std != 0 {
			t.Errorf("%s is %v±%v, expected %v", name, mean, std, want)
		}
	}
}

func TestSeedDecidesTheBits(t *testing.T) {
	g := train(t, references()["mlp-sgd"].spec, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	a, b, c := fresh(g, 1), fresh(g, 1), fresh(g, 2)
	for _, name := range []string{"layers.0.weight", "layers.0.bias", "layers.1.weight"} {
		if !slices.Equal(a[name].F, b[name].F) {
			t.Errorf("%s differs for one seed", name)
		}
		if slices.Equal(a[name].F, c[name].F) {
			t.Errorf("%s is the same for two seeds", name)
		}
	}
	if slices.Equal(a["layers.0.weight"].F[:16], a["layers.1.weight"].F[:16]) {
		t.Error("two weights have the same numbers")
	}
}

// What the bytes held before does not show.
func TestFillOverwrites(t *testing.T) {
	g := train(t, references()["mlp-sgd"].spec, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	for _, v := range g.Vars {
		clean, dirty := make([]byte, v.Meta.Bytes()), bytes.Repeat([]byte{0xff}, int(v.Meta.Bytes()))
		models.Fill(v, 1, clean)
		models.Fill(v, 1, dirty)
		if !bytes.Equal(clean, dirty) {
			t.Errorf("%v is not overwritten", v)
		}
	}
}

func TestFillRefusesAnotherSize(t *testing.T) {
	defer func() {
		if msg, _ := recover().(string); !strings.HasPrefix(msg, "BUG: ") {
			t.Errorf("got panic %q", msg)
		}
	}()
	models.Fill(&graph.Value{Name: "w", Meta: shape.F32(3)}, 1, make([]byte, 8))
}

// TestNarrowedNotFinite: a number that would be stored as none is refused, by its place in the whole.
func TestNarrowedNotFinite(t *testing.T) {
	for as, name := range map[shape.DType]string{shape.BFloat16: "bfloat16", shape.Int8Block: "int8"} {
		m := shape.Meta{DType: as, Shape: shape.Of(1<<18, 5)}
		bad := m.Elems() - 3 // in the last piece
		err := models.Narrowed(m, make([]byte, m.Bytes()), func(piece []float32, at int) error {
			clear(piece)
			if i := bad - at; i < len(piece) {
				piece[i] = float32(math.Inf(1))
			}
			return nil
		})
		if want := fmt.Sprintf("element %d is +Inf, which %s cannot hold", bad, name); err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}
