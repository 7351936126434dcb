package main

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/berth-ml/berth/engine/shape"
)

const openBLASName = "OpenBLAS"

// openBLAS multiplies matrices. It packs both factors in each call.
type openBLAS struct {
	sgemm, sbgemm uintptr // sbgemm is 0 where the library has no products of bfloat16
	config, core  string
}

func newOpenBLAS() (*openBLAS, error) {
	handle, err := open(openBLASName, "apt-get install libopenblas0", "libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0")
	if err != nil {
		return nil, err
	}
	o := &openBLAS{}
	if o.sgemm, err = purego.Dlsym(handle, "sgemm_"); err != nil {
		return nil, err
	}
	if at, err := purego.Dlsym(handle, "sbgemm_"); err == nil {
		o.sbgemm = at
	}
	for name, to := range map[string]*string{"openblas_get_config": &o.config, "openblas_get_corename": &o.core} {
		var get func() unsafe.Pointer
		if at, err := purego.Dlsym(handle, name); err == nil {
			purego.RegisterFunc(&get, at)
			*to = cString(get())
		}
	}
	return o, nil
}

// version is its number and the CPU whose kernels it takes.
func (o *openBLAS) version() string {
	words := strings.Fields(o.config)
	return strings.Join(append(words[:min(2, len(words))], o.core), " ")
}

func (o *openBLAS) ways(r *row) ([]job, error) {
	if r.op.Kind() != "matmul" {
		return nil, errNo
	}
	call, at := "sgemm", o.sgemm
	if r.bf16() {
		call, at = "sbgemm", o.sbgemm
	}
	if at == 0 {
		return nil, errNo
	}
	j := &gemm{call: call, at: at}
	if err := j.load(r); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return []job{j}, nil
}

// gemm is a call, with its arguments in Fortran's words: matrices lie by columns, and every argument is an
// address.
type gemm struct {
	call   string
	at     uintptr
	blocks [3]block // a, b, c
	n      int      // elements of c
	args   struct {
		transA, transB         [8]byte
		m, n, k, ldA, ldB, ldC int32
		one, zero              float32
		a, b, c                uintptr
	}
}

func (j *gemm) load(r *row) error {
	p, given := r.product(), r.given()
	j.n = p.m * p.n
	for i, x := range append(given, make([]float32, j.n)) {
		b, err := newBlock(4 * len(x))
		if err != nil {
			return err
		}
		j.blocks[i] = b
		if r.bf16() && i < 2 {
			round(shape.View[uint16](b), x)
		} else {
			copy(b.floats(len(x)), x)
		}
	}
	// By columns the same memory holds the transposes, and the transpose of a·b is b's times a's.
	letter := map[bool]byte{false: 'N', true: 'T'}
	a := &j.args
	a.transA[0], a.transB[0] = letter[p.transB], letter[p.transA]
	a.m, a.n, a.k = int32(p.n), int32(p.m), int32(p.k)
	a.ldA, a.ldB, a.ldC = int32(p.n), int32(p.k), int32(p.n)
	if p.transB {
		a.ldA = int32(p.k)
	}
	if p.transA {
		a.ldB = int32(p.m)
	}
	a.one, a.a, a.b, a.c = 1, j.blocks[1].address(), j.blocks[0].address(), j.blocks[2].address()
	return nil
}

// round is x as bfloat16, half-way to the even one.
func round(to []uint16, x []float32) {
	for i, v := range shape.View[int32](shape.Bytes(x)) {
		u := uint32(v)
		to[i] = uint16((u + 0x7fff + u>>16&1) >> 16)
	}
}

func (j *gemm) how() string { return j.call }

func (j *gemm) run() (time.Duration, error) {
	a := &j.args
	start := time.Now()
	purego.SyscallN(j.at, uintptr(unsafe.Pointer(&a.transA)), uintptr(unsafe.Pointer(&a.transB)),
		uintptr(unsafe.Pointer(&a.m)), uintptr(unsafe.Pointer(&a.n)), uintptr(unsafe.Pointer(&a.k)),
		uintptr(unsafe.Pointer(&a.one)), a.a, uintptr(unsafe.Pointer(&a.ldA)), a.b, uintptr(unsafe.Pointer(&a.ldB)),
		uintptr(unsafe.Pointer(&a.zero)), a.c, uintptr(unsafe.Pointer(&a.ldC)))
	return time.Since(start), nil
}

func (j *gemm) results() ([][]float32, error) {
	return [][]float32{append([]float32(nil), j.blocks[2].floats(j.n)...)}, nil
}

func (j *gemm) close() error {
	var errs []error
	for _, b := range j.blocks {
		if b != nil {
			errs = append(errs, b.free())
		}
	}
	return errors.Join(errs...)
}
