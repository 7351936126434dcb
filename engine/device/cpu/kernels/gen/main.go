// Command gen writes the vector kernels of package asm, assembly and the Go
// declarations that go with it, and for the packages that call them the functions
// that choose between instruction sets. It is a module of its own, so that the
// project does not depend on the assembler library. go generate in package asm runs
// it.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files are written by the generator, each as the pair NAME.s and NAME.go.
var files = []struct {
	name string
	emit func(c *build.Context)
}{
	{"gemm_avx512_amd64", func(c *build.Context) { emitGemm(c, avx512(), false) }},
	{"gemm_avx2_amd64", func(c *build.Context) { emitGemm(c, avx2(), false) }},
	{"gemm_ahead_avx512_amd64", func(c *build.Context) { emitGemm(c, avx512(), true) }},
	{"gemm_ahead_avx2_amd64", func(c *build.Context) { emitGemm(c, avx2(), true) }},
	{"gemm_blocks_avx512_amd64", func(c *build.Context) { emitGemmBlocks(c, avx512()) }},
	{"gemm_blocks_avx2_amd64", func(c *build.Context) { emitGemmBlocks(c, avx2()) }},
	{"gemm_bf16_amd64", emitBF16},
	{"gemm_amx_amd64", emitGemmAMX},
	{"single_amd64", emitSingle},
	{"few_avx512_amd64", emitFew},
	{"pack_amd64", emitPack},
	{"conv_avx512_amd64", func(c *build.Context) { emitConv(c, avx512()) }},
	{"conv_avx2_amd64", func(c *build.Context) { emitConv(c, avx2()) }},
	{"conv_amx_amd64", emitConvAMX},
	{"depth_avx512_amd64", func(c *build.Context) { emitDepth(c, avx512()) }},
	{"depth_avx2_amd64", func(c *build.Context) { emitDepth(c, avx2()) }},
	{"depth3_avx512_amd64", func(c *build.Context) { emitDepth3Wide(c, avx512()) }},
	{"depth3_avx2_amd64", func(c *build.Context) { emitDepth3(c, avx2()) }},
	{"pool_avx512_amd64", func(c *build.Context) { emitPool(c, avx512()) }},
	{"pool_avx2_amd64", func(c *build.Context) { emitPool(c, avx2()) }},
	{"pool_window_avx512_amd64", func(c *build.Context) { emitPoolWindow(c, avx512()) }},
	{"pool_window_avx2_amd64", func(c *build.Context) { emitPoolWindow(c, avx2()) }},
	{"random_avx512_amd64", func(c *build.Context) { emitRandom(c, avx512()) }},
	{"random_avx2_amd64", func(c *build.Context) { emitRandom(c, avx2()) }},
	{"vec_avx512_amd64", func(c *build.Context) { emitVec(c, avx512()) }},
	{"vec_avx2_amd64", func(c *build.Context) { emitVec(c, avx2()) }},
	{"columns_avx512_amd64", func(c *build.Context) { emitColumns(c, avx512()) }},
	{"columns_avx2_amd64", func(c *build.Context) { emitColumns(c, avx2()) }},
	{"narrow_avx512_amd64", func(c *build.Context) { emitNarrow(c, avx512()) }},
	{"narrow_avx2_amd64", func(c *build.Context) { emitNarrow(c, avx2()) }},
	{"move_avx512_amd64", func(c *build.Context) { emitMove(c, avx512()) }},
	{"move_avx2_amd64", func(c *build.Context) { emitMove(c, avx2()) }},
	{"rows_avx512_amd64", func(c *build.Context) { emitRows(c, avx512()) }},
	{"rows_avx2_amd64", func(c *build.Context) { emitRows(c, avx2()) }},
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", ".", "where package kernels is")
	flag.Parse()
	for _, f := range files {
		c := build.NewContext()
		f.emit(c)
		if err := write(filepath.Join(*dir, "asm"), f.name, c); err != nil {
			log.Fatalf("gen: %s: %v", f.name, err)
		}
	}
	for _, write := range []func(dir string) error{writeDispatch, writeVecTables} {
		if err := write(*dir); err != nil {
			log.Fatalf("gen: %v", err)
		}
	}
}

// write compiles what c holds and writes the assembly and its declarations.
func write(dir, name string, c *build.Context) error {
	file, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "gen", Pkg: "asm"}
	for ext, p := range map[string]printer.Printer{".s": printer.NewGoAsm(cfg), ".go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+ext), encodeConstants(encodeTiles(encode(text))), 0o644); err != nil {
			return err
		}
	}
	return nil
}
