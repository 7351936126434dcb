package gen

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
)

// BenchmarkMatMul multiplies square matrices with the kernels of this package, and with
// CLBlast if it is installed, in turns on the same driver.
func BenchmarkMatMul(b *testing.B) {
	d, err := openDriver("libOpenCL.so.1")
	if err != nil {
		b.Skip(err)
	}
	for _, n := range []int{128, 512, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ours, err := d.ownProduct(n)
			if err != nil {
				b.Fatal(err)
			}
			clblast, err := d.clblastProduct(n)
			if err != nil {
				b.Skip(err)
			}
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i, multiply := range []func() error{ours, clblast} {
					start := time.Now()
					if err := multiply(); err != nil {
						b.Fatal(err)
					}
					best[i] = min(best[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(best[0].Microseconds())/1e3, "own-ms")
			b.ReportMetric(float64(best[1].Microseconds())/1e3, "clblast-ms")
		})
	}
}

// ownProduct multiplies two matrices of n rows and columns.
func (d *driver) ownProduct(n int) (multiply func() error, err error) {
	x := kernelstest.Noise(n, n)
	node, err := kernelstest.NodeOf(ops.MatMul{}, []ref.Array{x, x})
	if err != nil {
		return nil, err
	}
	calls, _, err := Node(node)
	if err != nil {
		return nil, err
	}
	text := OpenCL
	for _, c := range calls {
		text += c.Source
	}
	if err := d.compile(text, "-cl-std=CL1.2"); err != nil {
		return nil, err
	}
	bytes := 4 * n * n
	memory, err := d.buffer(2*bytes, append(kernelstest.Load(x).Mem, make([]byte, bytes)...))
	if err != nil {
		return nil, err
	}
	status, err := d.buffer(between, make([]byte, between))
	program := d.program
	return func() error {
		d.program = program
		for _, c := range calls {
			args := []uint64{uint64(memory), uint64(status)}
			for _, a := range c.Args {
				v := uint64(a.Value)
				if a.Role == Out {
					v = uint64(bytes)
				}
				args = append(args, v)
			}
			lanes, group := c.Lanes(GroupLanes)
			if err := d.run(c.Name, lanes, group, args...); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// clblastProduct is ownProduct by CLBlast.
func (d *driver) clblastProduct(n int) (multiply func() error, err error) {
	handle, err := purego.Dlopen("libclblast.so.1", purego.RTLD_NOW)
	if err != nil {
		return nil, err
	}
	var gemm func(layout, transA, transB int32, m, n, k uintptr, alpha float32, a, aAt, lda, b, bAt, ldb uintptr, beta float32,
		c, cAt, ldc uintptr, queue *uintptr, event *uintptr) int32
	purego.RegisterLibFunc(&gemm, handle, "CLBlastSgemm")
	b := kernelstest.Load(kernelstest.Noise(n, n)).Mem
	x, err := d.buffer(len(b), b)
	if err != nil {
		return nil, err
	}
	z, err := d.buffer(len(b), b)
	const rows, no = 101, 111 // row-major, not transposed
	size := uintptr(n)
	return func() error {
		if s := gemm(rows, no, no, size, size, size, 1, x, 0, size, x, 0, size, 0, z, 0, size, &d.queue, nil); s != 0 {
			return fmt.Errorf("CLBlastSgemm: %d", s)
		}
		d.finish(d.queue)
		return nil
	}, err
}
