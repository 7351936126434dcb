package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

const oneDNNName = "oneDNN"

// Constants of dnnl_types.h, version 2.
const (
	dnnlBF16, dnnlF32              = 2, 3
	tagAny, tagNCHW, tagNHWC       = 1, 5, 20
	tagNCHW8c, tagNCHW16c          = 93, 69
	forwardTraining, backward      = 64, 128
	directConvolution              = 1
	maxPooling                     = 0x1ff
	binaryAdd                      = 0x1fff0
	useScale, useShift             = 0x8, 0x10
	queryImplementation            = 8
	querySrc, queryDiffSrc         = 129, 130
	queryWeights, queryDiffWeights = 131, 132
	queryDst, queryDiffDst         = 133, 134
	queryWorkspace                 = 135
	argSrc, argDst                 = 1, 17
	argWeights, argWorkspace       = 33, 64
	argMean, argVariance           = 49, 50
	argScale, argShift             = 51, 52
	argDiffSrc, argDiffDst         = 129, 145
	argDiffWeights                 = 161
	argDiffScale, argDiffShift     = 255, 256
	notImplemented                 = 3
)

// oneDNN calls oneDNN 2 by its C interface.
type oneDNN struct {
	handle         uintptr
	functions      map[string]uintptr
	execute, wait  uintptr
	engine, stream uintptr
	number         [3]int32

	// These two take a number in float32.
	layerNorm     func(desc *descriptor, kind int32, data, statistics *layout, eps float32, flags uint32) int32
	layerNormGrad func(desc *descriptor, kind int32, diff, data, statistics *layout, eps float32, flags uint32) int32
}

// layout is a dnnl_memory_desc_t, and descriptor has room for any dnnl_…_desc_t of an op.
type (
	layout     [1024]byte
	descriptor [16384]byte
)

func newOneDNN() (*oneDNN, error) {
	handle, err := open(oneDNNName+" 2", "apt-get install libdnnl2", "libdnnl.so.2", "libdnnl.so")
	if err != nil {
		return nil, err
	}
	d := &oneDNN{handle: handle, functions: map[string]uintptr{}}
	var version func() *[3]int32
	purego.RegisterLibFunc(&version, handle, "dnnl_version")
	d.number = *version()
	if d.number[0] != 2 {
		return nil, fmt.Errorf("this is oneDNN %s, whose C interface is another: version 2 is wanted", d.version())
	}
	purego.RegisterLibFunc(&d.layerNorm, handle, "dnnl_layer_normalization_forward_desc_init")
	purego.RegisterLibFunc(&d.layerNormGrad, handle, "dnnl_layer_normalization_backward_desc_init")
	const cpu, first, inOrder = 1, 0, 1
	if err := d.call("dnnl_engine_create", &d.engine, cpu, first); err != nil {
		return nil, err
	}
	if err := d.call("dnnl_stream_create", &d.stream, d.engine, inOrder); err != nil {
		return nil, err
	}
	d.execute, err = d.function("dnnl_primitive_execute")
	if err != nil {
		return nil, err
	}
	d.wait, err = d.function("dnnl_stream_wait")
	return d, err
}

func (d *oneDNN) version() string {
	return fmt.Sprintf("oneDNN %d.%d.%d", d.number[0], d.number[1], d.number[2])
}

func (d *oneDNN) function(name string) (at uintptr, err error) {
	if at = d.functions[name]; at == 0 {
		if at, err = purego.Dlsym(d.handle, name); err != nil {
			return 0, err
		}
		d.functions[name] = at
	}
	return at, nil
}

// call calls a function that returns a status. Its arguments are numbers, handles of the library (uintptr), and pointers.
func (d *oneDNN) call(name string, args ...any) error {
	at, err := d.function(name)
	if err != nil {
		return err
	}
	words := make([]uintptr, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case int:
			words[i] = uintptr(a)
		case uintptr:
			words[i] = a
		case *layout:
			words[i] = uintptr(unsafe.Pointer(a))
		case *descriptor:
			words[i] = uintptr(unsafe.Pointer(a))
		case *[12]int64:
			words[i] = uintptr(unsafe.Pointer(a))
		case *uintptr:
			words[i] = uintptr(unsafe.Pointer(a))
		case *float32:
			words[i] = uintptr(unsafe.Pointer(a))
		case *unsafe.Pointer:
			words[i] = uintptr(unsafe.Pointer(a))
		default:
			return fmt.Errorf("BUG: %s: argument %d is a %T", name, i, a)
		}
	}
	r, _, _ := purego.SyscallN(at, words...)
	runtime.KeepAlive(args)
	return status(name, int32(r))
}

func status(name string, code int32) error {
	switch code {
	case 0:
		return nil
	case notImplemented:
		return fmt.Errorf("%s: %w", name, errNo)
	}
	return fmt.Errorf("%s: status %d", name, code)
}

// plain is the layout of a row-major tensor of float32.
func (d *oneDNN) plain(dims ...int) (*layout, error) { return d.typed(dnnlF32, dims, nil) }

// typed is a layout by strides; nil means row-major.
func (d *oneDNN) typed(dtype uintptr, dims, strides []int) (*layout, error) {
	if strides == nil {
		strides = make([]int, len(dims))
		for i, n := len(dims)-1, 1; i >= 0; i-- {
			strides[i] = n
			n *= dims[i]
		}
	}
	l, ds, ss := new(layout), longs(dims), longs(strides)
	return l, d.call("dnnl_memory_desc_init_by_strides", l, uintptr(len(dims)), ds, dtype, ss)
}

// tagged is a layout by one of dnnl_format_tag_t.
func (d *oneDNN) tagged(dtype, tag uintptr, dims ...int) (*layout, error) {
	l, ds := new(layout), longs(dims)
	return l, d.call("dnnl_memory_desc_init_by_tag", l, uintptr(len(dims)), ds, dtype, tag)
}

// longs is a dnnl_dims_t.
func longs(dims []int) *[12]int64 {
	ds := new([12]int64)
	for i, n := range dims {
		ds[i] = int64(n)
	}
	return ds
}

// composite is one primitive or more, in order, with the memory that they use.
type composite struct {
	d      *oneDNN
	name   string
	steps  []step
	blocks []block
	out    []output
	ends   []func() error // of what else there is to end
}

// step is a primitive with its arguments.
type step struct {
	primitive uintptr
	args      []argument
}

// argument is a dnnl_exec_arg_t.
type argument struct {
	index  int32
	memory uintptr
}

// tensor is memory in some layout.
type tensor struct {
	layout *layout
	memory uintptr
	block  block
}

// output is a result: a tensor, its dimensions and layout when it is read, and what is to be done with the numbers.
type output struct {
	tensor
	plain *layout
	n     int
	order func(x []float32) []float32 // nil: they are in order
}

// tensor allocates memory.
func (c *composite) tensor(l *layout) (t tensor, err error) {
	size, err := c.d.function("dnnl_memory_desc_get_size")
	if err != nil {
		return t, err
	}
	bytes, _, _ := purego.SyscallN(size, uintptr(unsafe.Pointer(l)))
	t.layout = l
	if t.block, err = newBlock(int(bytes)); err != nil {
		return t, err
	}
	c.blocks = append(c.blocks, t.block)
	memory := new(uintptr)
	if err := c.d.call("dnnl_memory_create", memory, l, c.d.engine, t.block.address()); err != nil {
		return t, err
	}
	t.memory = *memory
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_memory_destroy", t.memory) })
	return t, nil
}

// load is numbers in a layout; plain is that of x.
func (c *composite) load(x []float32, plain, to *layout) (t tensor, err error) {
	from, err := c.tensor(plain)
	if err != nil {
		return t, err
	}
	copy(from.block.floats(len(x)), x)
	if c.same(plain, to) {
		return from, nil
	}
	if t, err = c.tensor(to); err != nil {
		return t, err
	}
	return t, c.reorder(from, t)
}

func (c *composite) same(a, b *layout) bool {
	at, err := c.d.function("dnnl_memory_desc_equal")
	if err != nil {
		return false
	}
	r, _, _ := purego.SyscallN(at, uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)))
	return int32(r) != 0
}

// reorder copies a tensor into another layout, at once.
func (c *composite) reorder(from, to tensor) error {
	desc := new(uintptr)
	if err := c.d.call("dnnl_reorder_primitive_desc_create", desc, from.layout, c.d.engine, to.layout, c.d.engine, 0); err != nil {
		return err
	}
	once := composite{d: c.d}
	err := once.add(*desc, argument{argSrc, from.memory}, argument{argDst, to.memory})
	if err == nil {
		_, err = once.run()
	}
	return errors.Join(err, once.close())
}

// describe makes the description of a primitive, which the composite ends.
func (c *composite) describe(desc *descriptor, attributes, forward uintptr) (uintptr, error) {
	p := new(uintptr)
	if err := c.d.call("dnnl_primitive_desc_create", p, desc, attributes, c.d.engine, forward); err != nil {
		return 0, err
	}
	return *p, nil
}

// query is a layout that the implementation wants.
func (c *composite) query(description uintptr, what uintptr) (*layout, error) {
	p := new(unsafe.Pointer)
	if err := c.d.call("dnnl_primitive_desc_query", description, what, 0, p); err != nil {
		return nil, err
	}
	l := new(layout)
	copy(l[:sizeOfLayout], unsafe.Slice((*byte)(*p), sizeOfLayout))
	return l, nil
}

const sizeOfLayout = 696 // of a dnnl_memory_desc_t

// add appends a primitive, and ends its description with the composite.
func (c *composite) add(description uintptr, args ...argument) error {
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_desc_destroy", description) })
	p := new(uintptr)
	if err := c.d.call("dnnl_primitive_create", p, description); err != nil {
		return err
	}
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_destroy", *p) })
	c.steps = append(c.steps, step{*p, args})
	text := new(unsafe.Pointer)
	if err := c.d.call("dnnl_primitive_desc_query", description, queryImplementation, 0, text); err != nil {
		return err
	}
	if c.name != "" {
		c.name += " + "
	}
	c.name += cString(*text)
	return nil
}

// result notes an output of some dimensions.
func (c *composite) result(t tensor, dims ...int) error {
	plain, err := c.d.plain(dims...)
	n := 1
	for _, d := range dims {
		n *= d
	}
	c.out = append(c.out, output{tensor: t, plain: plain, n: n})
	return err
}

func (c *composite) how() string { return c.name }

func (c *composite) run() (time.Duration, error) {
	start := time.Now()
	for i := range c.steps {
		s := &c.steps[i]
		r, _, _ := purego.SyscallN(c.d.execute, s.primitive, c.d.stream, uintptr(len(s.args)), uintptr(unsafe.Pointer(&s.args[0])))
		if r != 0 {
			return 0, status("dnnl_primitive_execute", int32(r))
		}
	}
	r, _, _ := purego.SyscallN(c.d.wait, c.d.stream)
	return time.Since(start), status("dnnl_stream_wait", int32(r))
}

func (c *composite) results() (all [][]float32, err error) {
	for _, o := range c.out {
		t := o.tensor
		if !c.same(o.plain, t.layout) {
			if t, err = c.tensor(o.plain); err != nil {
				return nil, err
			}
			if err := c.reorder(o.tensor, t); err != nil {
				return nil, err
			}
		}
		x := append([]float32(nil), t.block.floats(o.n)...)
		if o.order != nil {
			x = o.order(x)
		}
		all = append(all, x)
	}
	return all, nil
}

// close ends everything, what was made last first.
func (c *composite) close() error {
	var errs []error
	for i := len(c.ends) - 1; i >= 0; i-- {
		errs = append(errs, c.ends[i]())
	}
	for _, b := range c.blocks {
		errs = append(errs, b.free())
	}
	c.ends, c.blocks = nil, nil
	return errors.Join(errs...)
}
