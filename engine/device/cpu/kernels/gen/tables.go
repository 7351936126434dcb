package main

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

// vecField is a function of a table of package vec: wrap makes it of the assembly, of
// which it takes the function itself where there is nothing to wrap.
type vecField struct {
	name, wrap, asm string
	perVector       int // further argument, as a multiple of the lanes; 0 for none
}

// vecTables are the tables of package vec, by their type.
var vecTables = map[string][]vecField{
	"Funcs": {
		{name: "Neg", wrap: "unary", asm: "Neg"},
		{name: "Abs", wrap: "unary", asm: "Abs"},
		{name: "Square", wrap: "unary", asm: "Square"},
		{name: "Sqrt", wrap: "unary", asm: "Sqrt"},
		{name: "Rsqrt", wrap: "unary", asm: "Rsqrt"},
		{name: "Relu", wrap: "unary", asm: "Relu"},
		{name: "Exp", wrap: "unary", asm: "Exp"},
		{name: "Log", wrap: "unary", asm: "Log"},
		{name: "Tanh", wrap: "unary", asm: "Tanh"},
		{name: "Sigmoid", wrap: "unary", asm: "Sigmoid"},
		{name: "Silu", wrap: "unary", asm: "Silu"},
		{name: "GeluTanh", wrap: "unary", asm: "GeluTanh"},
		{name: "GeluErf", wrap: "unary", asm: "GeluErf"},
		{name: "Add", wrap: "binary", asm: "Add"},
		{name: "Sub", wrap: "binary", asm: "Sub"},
		{name: "Mul", wrap: "binary", asm: "Mul"},
		{name: "Div", wrap: "binary", asm: "Div"},
		{name: "ReluGrad", wrap: "binary", asm: "ReluGrad"},
		{name: "AbsGrad", wrap: "binary", asm: "AbsGrad"},
		{name: "SquareGrad", wrap: "binary", asm: "SquareGrad"},
		{name: "SqrtGrad", wrap: "binary", asm: "SqrtGrad"},
		{name: "RsqrtGrad", wrap: "binary", asm: "RsqrtGrad"},
		{name: "ExpGrad", wrap: "binary", asm: "ExpGrad"},
		{name: "LogGrad", wrap: "binary", asm: "LogGrad"},
		{name: "TanhGrad", wrap: "binary", asm: "TanhGrad"},
		{name: "SigmoidGrad", wrap: "binary", asm: "SigmoidGrad"},
		{name: "SiluGrad", wrap: "binary", asm: "SiluGrad"},
		{name: "GeluTanhGrad", wrap: "binary", asm: "GeluTanhGrad"},
		{name: "GeluErfGrad", wrap: "binary", asm: "GeluErfGrad"},
		{name: "Swiglu", wrap: "binary", asm: "Swiglu"},
		{name: "Geglu", wrap: "binary", asm: "Geglu"},
		{name: "GegluTanh", wrap: "binary", asm: "GegluTanh"},
		{name: "MulAddTo", wrap: "binary", asm: "MulAddTo"},
		{name: "AddScalar", wrap: "scalar", asm: "AddScalar"},
		{name: "MulScalar", wrap: "scalar", asm: "MulScalar"},
		{name: "DivScalar", wrap: "scalar", asm: "DivScalar"},
		{name: "ScalarSub", wrap: "scalar", asm: "ScalarSub"},
		{name: "ScalarDiv", wrap: "scalar", asm: "ScalarDiv"},
		{name: "AddScaled", wrap: "scalar", asm: "AddScaled"},
		{name: "Lerp", wrap: "blend", asm: "Lerp"},
		{name: "Affine", wrap: "linear", asm: "Affine"},
		{name: "Widen", wrap: "widens", asm: "Widen", perVector: 1},
		{name: "WidenInt8", wrap: "widensInt8", asm: "WidenInt8"},
		{name: "Sum", wrap: "total", asm: "Sum"},
		{name: "Dot", wrap: "total2", asm: "Dot"},
		{name: "SquaresFrom", wrap: "totalFrom", asm: "SquaresFrom"},
		{name: "ExpSum", wrap: "totalExp", asm: "ExpSum"},
		{name: "Max", wrap: "most", asm: "Max"},
		{name: "DropFactors", wrap: "drops", asm: "DropFactors", perVector: 4},
		{name: "Adam", wrap: "update3", asm: "Adam"},
		{name: "Lion", wrap: "updateSigns", asm: "Lion"},
		{name: "SGD", wrap: "update1", asm: "SGD"},
		{name: "Momentum", wrap: "update2", asm: "Momentum"},
		{name: "Nesterov", wrap: "update2", asm: "Nesterov"},
	},
	"Rows": {
		{name: "SumExp", wrap: "sumExpOf", asm: "SumExp"},
		{name: "ExpScaled", wrap: "linear", asm: "ExpScaled"},
		{name: "DotFrom", wrap: "dotFromOf", asm: "DotFrom"},
		{name: "MulFrom", wrap: "blend", asm: "MulFrom"},
		{name: "LessExp", wrap: "blend", asm: "LessExp"},
		{name: "SquaredDistance", wrap: "total2", asm: "SquaredDistance"},
		{name: "LogisticLoss", wrap: "total2", asm: "LogisticLoss"},
		{name: "SquaredDistanceGrad", wrap: "blend", asm: "SquaredDistanceGrad"},
		{name: "LogisticLossGrad", wrap: "blend", asm: "LogisticLossGrad"},
		{name: "Normalize", wrap: "normalizeOf", asm: "Normalize"},
		{name: "NormGradSums", wrap: "normGradSumsOf", asm: "NormGradSums"},
		{name: "NormGrad", wrap: "normGradOf", asm: "NormGrad"},
		{name: "Standardize", wrap: "standardizeOf", asm: "Standardize"},
		{name: "StandardizeGrad", wrap: "standardizeGradOf", asm: "StandardizeGrad"},
		{name: "Rotate", wrap: "rotateOf", asm: "Rotate"},
		{name: "Attend", asm: "Attend"},
		{name: "AttendGrad", asm: "AttendGrad"},
		{name: "RowDots", asm: "RowDots"},
		{name: "Zeros", asm: "Zeros"},
	},
	"Columns": {
		{name: "SumRows", wrap: "foldRows", asm: "SumRows"},
		{name: "MaxRows", wrap: "foldRows", asm: "MaxRows"},
		{name: "SumEach", wrap: "foldEach", asm: "SumEach"},
		{name: "MaxEach", wrap: "foldEach", asm: "MaxEach"},
		{name: "SquaresRows", wrap: "squaresOf", asm: "SquaresRows"},
		{name: "DotRows", wrap: "dotRowsOf", asm: "DotRows"},
		{name: "ScaleRows", wrap: "scaleOf", asm: "ScaleRows"},
		{name: "ScaleGrad", wrap: "scaleGradOf", asm: "ScaleGradRows"},
		{name: "FirstRows", wrap: "firstOf", asm: "FirstRows"},
	},
	"Narrow": {
		{name: "Softmax", wrap: "narrowOne", asm: "NarrowSoftmax", perVector: 4},
		{name: "SoftmaxGrad", wrap: "narrowTwo", asm: "NarrowSoftmaxGrad", perVector: 4},
		{name: "LogSoftmaxGrad", wrap: "narrowTwo", asm: "NarrowLogSoftmaxGrad", perVector: 4},
		{name: "ExpSums", wrap: "narrowSums", asm: "NarrowExpSums", perVector: 4},
		{name: "Minus", wrap: "narrowMinus", asm: "NarrowMinus", perVector: 4},
	},
}

// vecSets are the instruction sets that have such tables.
var vecSets = []struct {
	name, lower, needs string
	simd               simd
}{
	{name: "AVX512", lower: "avx512", needs: "AVX-512 F, VL, BW and DQ", simd: avx512()},
	{name: "AVX2", lower: "avx2", needs: "AVX2 and FMA", simd: avx2()},
}

// writeVecTables writes the tables of package vec, which is below dir.
func writeVecTables(dir string) error {
	var b strings.Builder
	b.WriteString("// Code generated by gen. DO NOT EDIT.\n\npackage vec\n\nimport \"github.com/berth-ml/berth/engine/device/cpu/kernels/asm\"\n")
	for _, set := range vecSets {
		for _, table := range []string{"Funcs", "Rows", "Columns", "Narrow"} {
			if table == "Funcs" {
				fmt.Fprintf(&b, "\n// %s needs %s.\nvar %s = Funcs{\n", set.name, set.needs, set.name)
			} else {
				fmt.Fprintf(&b, "\nvar %s%s = %s{\n", set.lower, table, table)
			}
			for _, f := range vecTables[table] {
				f.emit(&b, set.simd)
			}
			if table == "Funcs" {
				fmt.Fprintf(&b, "\nRows: &%[1]sRows, Columns: &%[1]sColumns, Narrow: &%[1]sNarrow,\n", set.lower)
			}
			b.WriteString("}\n")
		}
	}
	out, err := format.Source([]byte(b.String()))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "vec", "tables_amd64.go"), out, 0o644)
}

// emit writes a field for a width of vectors.
func (f *vecField) emit(b *strings.Builder, s simd) {
	asm := "asm." + f.asm + s.suffix
	switch {
	case f.wrap == "":
		fmt.Fprintf(b, "%s: %s,\n", f.name, asm)
	case f.perVector > 0:
		fmt.Fprintf(b, "%s: %s(%s, %d),\n", f.name, f.wrap, asm, f.perVector*s.lanes)
	default:
		fmt.Fprintf(b, "%s: %s(%s),\n", f.name, f.wrap, asm)
	}
}
