package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"os"
	"path/filepath"
	"strings"
)

// dispatched is a function of a package that calls, for each instruction set, the
// assembly there is. An address that went through a table of functions would escape to
// the heap; so each function is a switch over direct calls.
type dispatched struct {
	name   string // in its package
	asm    string // in package asm, without its suffix
	params string
	result string // of the assembly, if it has one
	doc    string
	// What the other instruction sets do: call a function of the package by name, or
	// where this is empty report false, or where it is "panic", panic.
	otherwise string
	only      string // the one instruction set that has it: then none is passed, and asm is its whole name
	avx2Args  string // arguments of the AVX2 version where they are not the parameters' names
	shared    bool   // AVX-512 takes the AVX2 version
}

const isaPath = "github.com/berth-ml/berth/engine/device/cpu/kernels/isa"

// dispatch is the functions of each package.
var dispatch = map[string][]dispatched{
	"strided": {
		{name: "copyVectors", asm: "CopyRows", params: "y, x *float32, ystride, xstride, rows, n int",
			doc: "copies rows of n elements. Strides are from row to row."},
		{name: "stretchVectors", asm: "StretchRows", params: "y, x *float32, ystride, xstride, rows, n int",
			doc: "copies one element of x for each of rows to n elements of y."},
		{name: "transposeVectors", asm: "Turn", params: "y *float32, ystride int, x *float32, xstride, rows, cols int",
			doc: "writes the transpose of x, rows x cols elements."},
	},
	"pooling": {
		{name: "maxPool2x2", asm: "MaxPool", params: "y *float32, idx *int32, x *float32, w, rows, cols int",
			doc: "writes the largest elements of rows x cols windows of 2x2, side by side in a plane x of w columns, and where in x they are."},
		{name: "maxPoolGrad2x2", asm: "MaxPoolGrad", params: "dx *float32, idx *int32, dy *float32, w, rows, cols int", result: "== 0",
			doc: "writes rows x cols windows of 2x2 of a plane dx of w columns: dy where idx says, else zeros. It reports whether every idx was in its window; if not, what it wrote is no use."},
		{name: "maxTapEach", asm: "MaxTapEach", params: maxTapParams, otherwise: "panic", doc: maxTapDoc + "Windows start at neighbouring elements of x."},
		{name: "maxTapOther", asm: "MaxTapOther", params: maxTapParams, otherwise: "panic", doc: maxTapDoc + "Windows start at every other element of x."},
		{name: "maxTapApart", asm: "MaxTapApart", params: "step int, " + maxTapParams, otherwise: "panic", doc: maxTapDoc + "Windows start at every step-th element of x."},
		{name: "addTapEach", asm: "AddTapEach", params: addTapParams, otherwise: "panic", doc: "adds neighbouring elements of rows of x to cols elements of rows of y."},
		{name: "addTapOther", asm: "AddTapOther", params: addTapParams, otherwise: "panic", doc: "adds every other element of rows of x to cols elements of rows of y."},
		{name: "addTapApart", asm: "AddTapApart", params: "step int, " + addTapParams, otherwise: "panic", doc: "adds every step-th element of rows of x to cols elements of rows of y."},
		{name: "spreadTapOther", asm: "SpreadTap", params: addTapParams, otherwise: "panic", doc: "adds cols elements of rows of x to every other element of rows of y."},
	},
	"product": {
		{name: "gemmVectors", asm: "Gemm", params: gemmParams, otherwise: "gemmGeneric",
			doc: "computes at most mr rows of a product: C = A*B, and with add not 0, C += A*B. Strides are in elements; step is from one panel of B to the next."},
		{name: "gemmAhead", asm: "GemmAhead", params: gemmParams, otherwise: "gemmGeneric", doc: "is gemmVectors for a B that lies in place: it is fetched ahead of its use."},
		{name: "gemmFew", asm: "Few512", params: "c *float32, ldc int, a *float32, ars int, b *float32, brs, rows, k, add int", only: "AVX512",
			doc: fmt.Sprintf("multiplies 2 to %d rows of a with %d rows of b: c[r][i] is the sum over t of a[r][t] * b[i][t]. With add not 0, it is added. a has an even number of rows, of which c gets all but perhaps the last. k is at least 1.", fewRows, fewColumns)},
		{name: "gemmBlocks", asm: "GemmBlocks", params: "c *float32, ldc int, a *float32, ars int, b *float32, step, rows, cols int, blocks *int, apart *float32", otherwise: "panic",
			doc: "computes at most mr rows of a product whose steps are in blocks: see convPointWGrad."},
		{name: "gemmPairs", asm: "GemmBF16", params: gemmParams, only: "AVX512", doc: "is gemmVectors for pairs of bfloat16: k counts pairs."},
		{name: "singleRows", asm: "SingleRows", params: singleParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("multiplies %d rows of b with the row a: y[i] is the sum over t of a[t] * b[i*brs+t]. With add not 0, it is added to y[i]. k is at least 1.", singleRows)},
		{name: "singleColumns", asm: "SingleColumns", params: singleParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("multiplies the row a with %d columns of b: y[j] is the sum over t of a[t] * b[t*brs+j]. With add not 0, it is added to y[j]. k is at least 1.", singleCols)},
		{name: "singleInt8Rows", asm: "SingleInt8Rows", params: singleStoredParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("is singleRows for %d rows that are stored as int8 by block, pitch bytes apart. b begins at a block, and k is of whole blocks, at least one.", singleRows)},
		{name: "singleInt8Columns", asm: "SingleInt8Columns", params: singleStoredParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("is singleColumns for %d columns of rows that are stored as int8 by block, pitch bytes apart. b begins at a block.", singleCols)},
		{name: "singleBF16Rows", asm: "SingleBF16Rows", params: singleStoredParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("is singleRows for %d rows that are stored as bfloat16, pitch bytes apart. k is a whole number of 16, at least one.", singleRows)},
		{name: "singleBF16Columns", asm: "SingleBF16Columns", params: singleStoredParams, shared: true, otherwise: "panic",
			doc: fmt.Sprintf("is singleColumns for %d columns of rows that are stored as bfloat16, pitch bytes apart.", singleCols)},
		{name: "transpose", asm: "Transpose", params: "dst *float32, drs int, src *float32, srs, k int", otherwise: "transposeGeneric",
			doc: "writes column i of src to row i of dst, lanes elements each, for k columns. It may write dst on to a whole number of depthStep rows."},
		{name: "gatherColumns", asm: "Gather", params: "dst, src *float32, rs, cs, rows, k int", avx2Args: "dst, src, cs, rows, k", shared: true, otherwise: "gatherGeneric",
			doc: "copies k columns of at most mr rows of A: row i of column j is src[i*rs+j*cs] and becomes dst[j*strip+i]. Vectors only gather rows that are neighbours: rs is 1."},
		{name: "spread", asm: "Spread", params: "dst *float32, step int, src *float32, srs, cols, k int", otherwise: "spreadGeneric",
			doc: "copies k rows of cols columns, srs elements apart, to panels of nr columns, step elements apart."},
		{name: "padVectors", asm: "PadRows512", params: "dst *float32, pitch int, src *float32, srs, cols, rows, left int", only: "AVX512",
			doc: "copies rows of cols numbers, srs elements apart, to rows of pitch numbers: left zeros, the numbers, and zeros again."},
		{name: "unzipVectors", asm: "Unzip", params: "dst, src *float32, n int", otherwise: "panic", doc: "copies every other number: dst[i] = src[2*i]."},
		{name: "zipVectors", asm: "Zip", params: "dst, a, b *float32, n int", otherwise: "panic", doc: "writes n numbers of a and b in turns."},
		{name: "convTwoVectors", asm: "Conv", params: convParams, otherwise: "panic", doc: "is convVectors for channels that fill two vectors."},
		{name: "convOneVector", asm: "ConvNarrow", params: convParams, otherwise: "panic", doc: "is convVectors for channels that fill one vector."},
		{name: "convTwoPairs", asm: "ConvBF16", params: convParams, only: "AVX512", doc: "is convPairs for channels that fill two vectors."},
		{name: "convOnePairs", asm: "ConvNarrowBF16", params: convParams, only: "AVX512", doc: "is convPairs for channels that fill one vector."},
		{name: "depth", asm: "Depth", params: "y *float32, yrs int, x *float32, xrs int, taps *int, w *float32, k, rows, cols int", otherwise: "depthGeneric",
			doc: "adds up k taps for rows x cols pixels: y[i][j] = sum over t of x[taps[t]+i*xrs+j] * w[t]. Rows of y are yrs elements apart. k is at least 1."},
		{name: "depthGrad", asm: "DepthGrad", params: "sums, y *float32, yrs int, x *float32, xrs int, taps *int, k, rows, cols int", otherwise: "depthGradGeneric",
			doc: "adds to k vectors of sums the products of rows x cols pixels of y and of x: sums[t][j%lanes] += y[i][j] * x[taps[t]+i*xrs+j]. Rows of y are yrs elements apart. k is at least 1."},
		{name: "depth3Each", asm: "Depth3Each", params: "y *float32, " + imagesParams + ", w *float32, step, narrow int, " + imagesCounts, otherwise: "panic",
			doc: "adds up 3x3 taps for images whose windows begin at neighbouring pixels: see convDepthwise3."},
		{name: "depth3Other", asm: "Depth3Other", params: "y *float32, " + imagesParams + ", w *float32, narrow int, " + imagesCounts, otherwise: "panic",
			doc: "adds up 3x3 taps for images whose windows begin at every other pixel: see convDepthwise3."},
		{name: "depth3Spread", asm: "Depth3Spread", params: "y *float32, " + imagesParams + ", w *float32, narrow int, " + imagesCounts, shared: true, otherwise: "panic",
			doc: "adds up 3x3 taps for images of which each other row and column begins a window: see convDepthwise3."},
		{name: "depth3GradEach", asm: "Depth3GradEach", params: "sums *float32, apart, imageSums int, y *float32, " + imagesParams + ", step int, " + imagesCounts, otherwise: "panic",
			doc: "adds to nine vectors of sums of each image the products of images whose windows begin at neighbouring pixels: see convDepthwiseWGrad."},
		{name: "depth3GradOther", asm: "Depth3GradOther", params: "sums *float32, apart, imageSums int, y *float32, " + imagesParams + ", " + imagesCounts, otherwise: "panic",
			doc: "adds to nine vectors of sums of each image the products of images whose windows begin at every other pixel: see convDepthwiseWGrad."},
		{name: "depth3Pairs", asm: "Depth3Pairs512", params: "y *float32, " + imagesParams + ", w *float32, " + pairsCounts, only: "AVX512",
			doc: "is depth3Each for pairs of narrow images: see convDepthwise3."},
		{name: "depth3PairsOther", asm: "Depth3PairsOther512", params: "y *float32, " + imagesParams + ", w *float32, " + pairsCounts, only: "AVX512",
			doc: "is depth3Other for pairs of narrow images: see convDepthwise3."},
		{name: "depth3GradPairs", asm: "Depth3GradPairs512", params: "sums *float32, apart, imageSums int, y *float32, " + imagesParams + ", " + pairsCounts, only: "AVX512",
			doc: "is depth3GradEach for pairs of narrow images: see convDepthwiseWGrad."},
		{name: "depth3GradPairsOther", asm: "Depth3GradPairsOther512", params: "sums *float32, apart, imageSums int, y *float32, " + imagesParams + ", " + pairsCounts, only: "AVX512",
			doc: "is depth3GradOther for pairs of narrow images: see convDepthwiseWGrad."},
		{name: "roundVectors", asm: "Round512", params: "dst, src *float32, n int", only: "AVX512", doc: "rounds n numbers to bfloat16. dst may be src."},
		{name: "halve", asm: "HalveBF16", params: "dst *float32, drs int, src *float32, srs, rows, k int", only: "AVX512",
			doc: "rounds k numbers of each row to bfloat16, two in the word of one, and fills rows of dst up with zeros to a whole number of 16 words. Here and below, subnormal numbers may become zeros."},
		{name: "gatherPairs", asm: "GatherPairsBF16", params: "dst, src *float32, cs, rows, k int", only: "AVX512",
			doc: "is gatherColumns of numbers rounded to bfloat16: two columns become one of pairs. It fills dst up with zeros to a whole number of two columns."},
		{name: "pairApart", asm: "PairApartBF16", params: "data *float32, apart, n int", only: "AVX512",
			doc: "rounds numbers in place: each of the first n becomes a pair with that which is apart numbers further on."},
		{name: "spreadPairs", asm: "SpreadPairsBF16", params: "dst *float32, step int, src *float32, srs, cols, k int", only: "AVX512",
			doc: "rounds k rows of cols columns to bfloat16 and copies them to panels of 32 columns, step words apart, two rows as one row of pairs."},
		{name: "halveRows", asm: "HalveRows512", params: "dst *float32, drs int, src *float32, srs, cols, rows int", result: "== 0", only: "AVX512",
			doc: "rounds rows of cols numbers to bfloat16, two in a word, and fills each up with zeros to a whole number of 16 words. It reports whether all rounded numbers are finite."},
		{name: "spreadHalves", asm: "SpreadHalves512", params: "dst *float32, step int, src *float32, srs, cols, k int", only: "AVX512",
			doc: "is spreadPairs for rows that halveRows wrote."},
		{name: "strips", asm: "Strips512", params: "dst *float32, step int, src *float32, srs, cols, pairs int", only: "AVX512",
			doc: "rounds pairs of rows to bfloat16 and copies them to strips of 16 columns, step words apart: a pair becomes a row of a strip."},
		{name: "roundedDots", asm: "RoundedDots512", params: "out *float32, step int, x *float32, xstride int, y *float32, ystride, rows, n int", only: "AVX512",
			doc: "writes the dot product of each row of x, rounded to bfloat16, with that of y to elements of out that are step apart."},
		{name: "tiles22", asm: "Tiles22", params: tileParams, only: "AMX", doc: tileDoc}, {name: "tiles21", asm: "Tiles21", params: tileParams, only: "AMX", doc: tileDoc},
		{name: "tiles12", asm: "Tiles12", params: tileParams, only: "AMX", doc: tileDoc}, {name: "tiles11", asm: "Tiles11", params: tileParams, only: "AMX", doc: tileDoc},
		{name: "split22", asm: "Split22", params: tileParams, only: "AMX", doc: tileDoc}, {name: "split21", asm: "Split21", params: tileParams, only: "AMX", doc: tileDoc},
		{name: "split12", asm: "Split12", params: tileParams, only: "AMX", doc: tileDoc}, {name: "split11", asm: "Split11", params: tileParams, only: "AMX", doc: tileDoc},
		{name: "tilesRows", asm: "TilesRows", params: "dst, src *float32, srs, rows, k int", only: "AMX", doc: "rounds k numbers of at most 32 rows of A to bfloat16, as a panel of tiles."},
		{name: "tilesColumns", asm: "TilesColumns", params: "dst *float32, step int, src *float32, srs, cols, k int", only: "AMX",
			doc: "rounds k rows of cols columns of B to bfloat16, as panels of tiles step words apart."},
		{name: "splitRows", asm: "SplitRows", params: "dst, src *float32, srs, rows, k int", result: "!= 0", only: "AMX",
			doc: "splits k numbers of at most 32 rows of A, as a panel of tiles. It reports whether it met unsplittable values."},
		{name: "splitColumns", asm: "SplitColumns", params: "dst *float32, step int, src *float32, srs, cols, k int", result: "!= 0", only: "AMX",
			doc: "splits k rows of cols columns of B, as panels of tiles step words apart. It reports whether it met unsplittable values."},
		{name: "turnTiles", asm: "TurnTiles512", params: "data *float32, tiles int", only: "AMX", doc: "transposes tiles in place: a panel of B becomes one of A, and a panel of A one of B."},
		{name: "windows2", asm: "Windows2", params: windowsParams, only: "AMX", doc: "computes 17 to 32 channels of a convolution: see multiplyWindows."},
		{name: "windows1", asm: "Windows1", params: windowsParams, only: "AMX", doc: "computes at most 16 channels of a convolution: see multiplyWindows."},
		{name: "pixels", asm: "Pixels", params: "shapes *byte, dw, panel, x *float32, plane, term int, at, steps *int, pairs, k int, sums *float32", only: "AMX",
			doc: "adds to dw the gradient of a convolution's weights: see multiplyPixels."},
		{name: "splitChannels", asm: "SplitChannels", params: "dst *float32, term int, first, second *float32, n int", result: "!= 0", only: "AMX",
			doc: "splits two channels into planes of pairs. It reports whether it met unsplittable values."},
		{name: "splitPixels", asm: "SplitPixels", params: "dst *float32, term, step int, src *float32, n int", result: "!= 0", only: "AMX",
			doc: "splits n numbers in their order, rows of 32 step words apart and terms term words. It reports whether it met unsplittable values."},
	},
}

const (
	gemmParams         = "c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int"
	singleParams       = "y, b *float32, brs int, a *float32, k, add int"
	singleStoredParams = "y *float32, b *byte, pitch int, a *float32, k, add int"
	convParams         = "y, x *float32, taps *int, w *float32, pixels, k, add int"
	tileParams         = "shapes *byte, c *float32, ldc int, a, b *float32, step, rows, cols, panels, k int, sums *float32"
	tileDoc            = "computes rows of a product by tiles: see multiplyTiles."
	windowsParams      = "shapes *byte, y *float32, py int, panel, x *float32, plane, term int, at, steps *int, rows, pairs, k, add int, sums *float32"
	maxTapParams       = "y *float32, idx *int32, ystride int, x *float32, xstride, rows, cols, at int"
	maxTapDoc          = "takes one element of each of rows x cols windows into account: y and idx, rows of ystride elements, are the largest so far and where it is; at is where in its plane x begins. "
	addTapParams       = "y *float32, ystride int, x *float32, xstride, rows, cols int"
)

// writeDispatch writes isa_amd64.go and isa_other.go of each package below dir.
func writeDispatch(dir string) error {
	for pkg, functions := range dispatch {
		for _, amd64 := range []bool{true, false} {
			name, head := "isa_other.go", "//go:build !amd64\n\n"
			if amd64 {
				name, head = "isa_amd64.go", ""
			}
			text := "// Code generated by gen. DO NOT EDIT.\n\n" + head + "package " + pkg + "\n\nimport (\n"
			if amd64 {
				text += "\t\"github.com/berth-ml/berth/engine/device/cpu/kernels/asm\"\n"
			}
			text += "\t\"" + isaPath + "\"\n)\n"
			for _, f := range functions {
				text += f.emit(amd64)
			}
			out, err := format.Source([]byte(text))
			if err != nil {
				return fmt.Errorf("%s: %w", pkg, err)
			}
			if err := os.WriteFile(filepath.Join(dir, pkg, name), out, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// args are the names of the parameters.
func (f *dispatched) args() string {
	e, err := parser.ParseExpr("func(" + f.params + ")")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, field := range e.(*ast.FuncType).Params.List {
		for _, n := range field.Names {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, ", ")
}

// emit is the function for amd64, or for other architectures.
func (f *dispatched) emit(amd64 bool) string {
	result, params := "", "set isa.ISA, "+f.params
	if f.only != "" {
		params = f.params
	}
	if f.reports() {
		result = " bool"
	}
	text := "\n" + comment(f.name+" "+f.about()) + "func " + f.name + "(" + params + ")" + result + " {\n"
	switch {
	case f.only != "" && amd64:
		text += f.call(f.asm, f.args())
	case amd64:
		wide, narrow := "512", f.args()
		if f.shared {
			wide = "2"
		}
		if f.avx2Args != "" {
			narrow = f.avx2Args
		}
		if wide == "2" {
			text += "switch set {\ncase isa.AMX, isa.AVX512, isa.AVX2:\n" + f.call(f.asm+"2", narrow)
		} else {
			text += "switch set {\ncase isa.AMX, isa.AVX512:\n" + f.call(f.asm+wide, f.args()) + "case isa.AVX2:\n" + f.call(f.asm+"2", narrow)
		}
		text += "default:\n" + f.fallback() + "}\n"
		if f.reports() && f.result == "" {
			text += "return true\n"
		}
	default:
		text += f.fallback()
	}
	return text + "}\n"
}

// reports is whether the function returns a bool: that there is assembly, or the
// assembly's own report.
func (f *dispatched) reports() bool { return f.result != "" || f.only == "" && f.otherwise == "" }

func (f *dispatched) about() string {
	switch {
	case f.only != "":
		return f.doc + " It needs " + f.only + "."
	case f.otherwise == "panic":
		return f.doc + " It needs vectors."
	case f.otherwise == "" && f.result == "":
		return f.doc + " It reports whether there are vectors."
	case f.otherwise == "":
		return f.doc + " Without vectors it reports false."
	}
	return f.doc
}

func (f *dispatched) call(name, args string) string {
	call := "asm." + name + "(" + args + ")"
	if f.result != "" {
		call = "return " + call + " " + f.result
	}
	return call + "\n"
}

func (f *dispatched) fallback() string {
	switch {
	case f.only != "":
		return fmt.Sprintf("panic(%q)\n", "BUG: "+f.name+" needs "+f.only)
	case f.otherwise == "panic":
		return fmt.Sprintf("panic(%q)\n", "BUG: "+f.name+" needs vectors")
	case f.otherwise == "":
		return "return false\n"
	}
	return f.otherwise + "(" + f.args() + ")\n"
}

// comment breaks a text into lines.
func comment(text string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		if i == 0 || width+len(word) > 86 {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("//")
			width = 0
		}
		b.WriteString(" " + word)
		width += 1 + len(word)
	}
	return b.String() + "\n"
}
