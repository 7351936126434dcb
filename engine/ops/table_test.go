package ops_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// aliases says which inputs' memory the outputs of an op may take over. Ops
// that are not listed must not declare any.
func aliases(op graph.Op) []int {
	switch o := op.(type) {
	case ops.Binary, ops.Unary, ops.Affine, ops.Lerp, ops.Compare, ops.Reshape, ops.CheckFinite, ops.Increment, ops.RingWrite, ops.CacheWrite, ops.StateWrite, ops.Tally, ops.Rotary:
		return []int{0}
	case ops.Softmax, ops.LogSoftmax, ops.LogSoftmaxGrad, ops.CrossEntropyGrad, ops.BatchNormEval:
		return []int{0}
	case ops.UnaryGrad, ops.Gated, ops.SoftmaxGrad, ops.Select, ops.SelectGrad:
		return []int{1}
	case ops.LayerNorm:
		return []int{0, -1, -1}
	case ops.RMSNorm:
		return []int{0, -1}
	case ops.RMSNormGrad:
		return []int{3, -1}
	case ops.BatchNorm:
		return []int{0, -1, -1, -1}
	case ops.LayerNormGrad, ops.BatchNormGrad:
		return []int{4, -1, -1}
	case ops.SGD:
		if o.Momentum > 0 {
			return []int{0, 3}
		}
		return []int{0}
	case ops.Adam:
		return []int{0, 2, 3}
	case ops.RepetitionPenalty, ops.SeenWrite:
		return []int{0}
	case ops.Lion:
		return []int{0, 2}
	case ops.Averaged:
		list := []int{0, 1}
		for _, i := range aliases(o.Op)[1:] {
			list = append(list, i+1)
		}
		return list
	case ops.Ranged:
		list := aliases(o.Op)
		if o.Apart {
			list[0] = -1
		}
		return list
	}
	return nil
}

// checkAlias compares the aliases that an op declares with the list, and the sizes
// with each other. Only a binary op may have a smaller input, which devices check.
func checkAlias(t *rapid.T, op graph.Op, in, out []shape.Meta) {
	want := aliases(op)
	a, ok := op.(graph.Aliaser)
	if !ok && want != nil {
		t.Fatalf("%s declares no alias", op.Kind())
	}
	if !ok {
		return
	}
	got := a.Alias()
	if !slices.Equal(got, want) {
		t.Fatalf("alias of %s is %v, expected %v", op.Kind(), got, want)
	}
	if _, stretched := op.(ops.Binary); stretched {
		return
	}
	for i, k := range got {
		if k < 0 {
			continue
		}
		if in[k].Bytes() != out[i].Bytes() || in[k].DType != out[i].DType {
			t.Fatalf("%s: output %d %v cannot be in input %d %v", graph.OpString(op), i, out[i], k, in[k])
		}
	}
}

func checkCost(t *rapid.T, op graph.Op, in, out []shape.Meta) {
	if c := op.Cost(in, out); c.Flops < 1 || c.Bytes < 1 && op.Kind() != "reshape" {
		t.Fatalf("cost of %s of %v is %+v", graph.OpString(op), in, c)
	}
}

func TestKindsAreComplete(t *testing.T) {
	kinds := ops.Kinds()
	if c := slices.Compact(slices.Clone(kinds)); len(c) != len(kinds) {
		t.Errorf("a kind is in the table twice: %v", kinds)
	}
	compareNames(t, "reference kernels", ref.Kinds(), kinds)
	tested := slices.Sorted(maps.Keys(draws))
	for k := range vias {
		tested = append(tested, k)
	}
	compareNames(t, "random inputs", tested, kinds)
	for kind, draw := range draws {
		s := rapid.Custom(draw).Example(0)
		if s.op.Kind() != kind {
			t.Errorf("the samples of %s are of %s", kind, s.op.Kind())
		}
		if (len(s.diff) == 0) != (slices.Contains(flat, kind) || slices.Contains(generating, kind)) {
			t.Errorf("%s is neither differentiated by finite differences nor listed as flat or generating", kind)
		}
	}
	for _, kind := range kinds {
		if len(bad[kind]) == 0 {
			t.Errorf("%s has no test of bad inputs", kind)
		}
	}
}

// Every type with a Kind method is in the table: found in the source, so that
// a new op cannot be forgotten.
func TestEveryOpTypeIsInTheTable(t *testing.T) {
	declared := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "Kind" {
				declared[fn.Recv.List[0].Type.(*ast.Ident).Name] = true
			}
		}
	}
	tested := map[string]bool{}
	for _, draw := range draws {
		tested[reflect.TypeOf(rapid.Custom(draw).Example(0).op).Name()] = true
	}
	for _, cases := range bad {
		for _, c := range cases {
			tested[reflect.TypeOf(c.op).Name()] = true
		}
	}
	compareNames(t, "tests", slices.Collect(maps.Keys(tested)), slices.Collect(maps.Keys(declared)))
}

// compareNames reports each name that what lacks, or has without an op.
func compareNames(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s: none for %s", what, name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s: one for %s, which is no op", what, name)
		}
	}
}

// The metadata rule accepts every sample, and the reference kernel's outputs have
// the metadata that the rule promises.
func TestGoodInputs(t *testing.T) {
	for kind, draw := range draws {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			s := draw(t)
			in := make([]shape.Meta, len(s.in))
			for i, a := range s.in {
				in[i] = a.Meta
			}
			out, err := s.op.Infer(in)
			if err != nil {
				t.Fatalf("%s of %v: %v", graph.OpString(s.op), in, err)
			}
			checkCost(t, s.op, in, out)
			checkAlias(t, s.op, in, out)
			got, err := ref.Run(s.op, s.in)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range got {
				if !a.Meta.Equal(out[i]) {
					t.Fatalf("output %d is %v, expected %v", i, a.Meta, out[i])
				}
			}
		}))
	}
}

func TestBadInputs(t *testing.T) {
	for kind, cases := range bad {
		for i, c := range cases {
			t.Run(fmt.Sprintf("%s/%d", kind, i), func(t *testing.T) {
				if c.op.Kind() != kind {
					t.Fatalf("this is a case of %s", c.op.Kind())
				}
				if out, err := c.op.Infer(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s of %v: %v, error %q, expected %q", graph.OpString(c.op), c.in, out, err, c.want)
				}
			})
		}
	}
}

func TestUnknownFunctions(t *testing.T) {
	for _, c := range unknown {
		if _, err := c.op.Infer(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, expected %q", graph.OpString(c.op), err, c.want)
		}
	}
}
