package main

import (
	"errors"
	"math"
	"strings"
	"unsafe"

	"github.com/berth-ml/berth/engine/ops"
)

// ways are a row's ways. Activations and images are in the layout that oneDNN chooses or likes best, as they would be
// between the layers of a net in oneDNN; bringing them there does not count. Weights of products are plain, since a step
// has changed them; those that stay may also be in the layout that it chooses.
func (d *oneDNN) ways(r *row) ([]job, error) {
	var makes []func(c *composite, r *row) error
	switch r.op.(type) {
	case ops.MatMul:
		makes = append(makes, (*composite).matmul)
		if r.kept {
			makes = append(makes, (*composite).matmulKept)
		}
	case ops.Conv2D, ops.Conv2DGradX, ops.Conv2DGradW:
		makes = append(makes, (*composite).convolution)
	case ops.MaxPool2D, ops.MaxPool2DGrad:
		for _, tag := range []uintptr{tagNCHW, tagNHWC, tagNCHW8c, tagNCHW16c} {
			makes = append(makes, func(c *composite, r *row) error { return c.maxPool(r, tag) })
		}
	case ops.LayerNorm, ops.RMSNorm, ops.LayerNormGrad, ops.RMSNormGrad:
		makes = append(makes, (*composite).norm)
	case ops.Softmax, ops.SoftmaxGrad:
		makes = append(makes, (*composite).softmax)
	case ops.Attention, ops.AttentionGrad:
		makes = append(makes, (*composite).attention)
	}
	var jobs, slow []job
	var errs []error
	for _, m := range makes {
		c := &composite{d: d}
		err := m(c, r)
		switch {
		case err != nil:
			errs = append(errs, err, c.close())
		case strings.HasPrefix(c.name, "ref"): // its reference, which nobody takes who has another way
			slow = append(slow, c)
		default:
			jobs = append(jobs, c)
		}
	}
	if len(jobs) == 0 {
		jobs, slow = slow, nil
	}
	for _, j := range slow {
		errs = append(errs, j.close())
	}
	if len(jobs) == 0 {
		return nil, errors.Join(errs...)
	}
	return jobs, nil
}

func (c *composite) matmul(r *row) error     { return c.multiply(r, false) }
func (c *composite) matmulKept(r *row) error { return c.multiply(r, true) }

// multiply is a product. If packed, the second factor is in the layout that oneDNN chooses.
func (c *composite) multiply(r *row, packed bool) error {
	p, given, dtype := r.product(), r.given(), uintptr(dnnlF32)
	if r.bf16() {
		dtype = dnnlBF16
	}
	factor := func(rows, cols int, transposed bool, dtype uintptr) (*layout, error) {
		strides := []int{cols, 1}
		if transposed {
			strides = []int{1, rows}
		}
		return c.d.typed(dtype, []int{rows, cols}, strides)
	}
	a32, err1 := factor(p.m, p.k, p.transA, dnnlF32)
	b32, err2 := factor(p.k, p.n, p.transB, dnnlF32)
	a, err3 := factor(p.m, p.k, p.transA, dtype)
	b, err4 := factor(p.k, p.n, p.transB, dtype)
	y, err5 := c.d.plain(p.m, p.n)
	if packed {
		b, err4 = c.d.tagged(dtype, tagAny, p.k, p.n)
	}
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	description, err := c.matmulOf(a, b, y, 0)
	if err != nil {
		return err
	}
	if b, err = c.query(description, queryWeights); err != nil {
		return err
	}
	ta, err1 := c.load(given[0], a32, a)
	tb, err2 := c.load(given[1], b32, b)
	ty, err3 := c.tensor(y)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return errors.Join(
		c.add(description, argument{argSrc, ta.memory}, argument{argWeights, tb.memory}, argument{argDst, ty.memory}),
		c.result(ty, p.m, p.n))
}

// matmulOf describes a product.
func (c *composite) matmulOf(a, b, y *layout, attributes uintptr) (uintptr, error) {
	desc := new(descriptor)
	if err := c.d.call("dnnl_matmul_desc_init", desc, a, b, 0, y); err != nil {
		return 0, err
	}
	return c.describe(desc, attributes, 0)
}

// convolution is a convolution or a gradient, direct: Winograd's would lose digits. All layouts are oneDNN's choice.
func (c *composite) convolution(r *row) error {
	v, given := r.conv(), r.given()
	w := []int(v.w)
	if v.groups > 1 {
		w = []int{v.groups, v.w[0] / v.groups, v.w[1], v.w[2], v.w[3]}
	}
	dims := [3][]int{v.x, w, v.y} // x, w, y
	out := map[string]int{"conv2d_grad_x": 0, "conv2d_grad_w": 1, "conv2d": 2}[r.op.Kind()]
	var free, plain [3]*layout
	for i, ds := range dims {
		dtype := uintptr(dnnlF32)
		if r.bf16() && i != out {
			dtype = dnnlBF16
		}
		var err1, err2 error
		free[i], err1 = c.d.tagged(dtype, tagAny, ds...)
		plain[i], err2 = c.d.plain(ds...)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	stride, pad := longs([]int{v.stride, v.stride}), longs([]int{v.pad, v.pad})
	// The forward pass is also a hint for gradients, whose own result is float32.
	hinted := free
	for i, ds := range dims {
		if r.bf16() && i == out && out != 2 {
			var err error
			if hinted[i], err = c.d.tagged(dnnlBF16, tagAny, ds...); err != nil {
				return err
			}
		}
	}
	forward := new(descriptor)
	if err := c.d.call("dnnl_convolution_forward_desc_init", forward, forwardTraining, directConvolution,
		hinted[0], hinted[1], 0, hinted[2], stride, pad, pad); err != nil {
		return err
	}
	description, err := c.describe(forward, 0, 0)
	if err != nil {
		return err
	}
	queries := [3]uintptr{querySrc, queryWeights, queryDst}
	arguments := [3]int32{argSrc, argWeights, argDst}
	if out != 2 {
		// The description of the forward pass is a hint, and ends with the composite.
		hint, back := description, new(descriptor)
		c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_desc_destroy", hint) })
		if r.op.Kind() == "conv2d_grad_x" {
			queries, arguments = [3]uintptr{queryDiffSrc, queryWeights, queryDiffDst}, [3]int32{argDiffSrc, argWeights, argDiffDst}
			err = c.d.call("dnnl_convolution_backward_data_desc_init", back, directConvolution, free[0], free[1], free[2],
				stride, pad, pad)
		} else {
			queries, arguments = [3]uintptr{querySrc, queryDiffWeights, queryDiffDst}, [3]int32{argSrc, argDiffWeights, argDiffDst}
			err = c.d.call("dnnl_convolution_backward_weights_desc_init", back, directConvolution, free[0], free[1], 0, free[2],
				stride, pad, pad)
		}
		if err != nil {
			return err
		}
		if description, err = c.describe(back, 0, hint); err != nil {
			return err
		}
	}
	var args []argument
	next := 0
	for i := range dims {
		l, err := c.query(description, queries[i])
		if err != nil {
			return err
		}
		var t tensor
		if i == out {
			t, err = c.tensor(l)
		} else {
			t, err = c.load(given[next], plain[i], l)
			next++
		}
		if err != nil {
			return err
		}
		args = append(args, argument{arguments[i], t.memory})
		if i == out {
			if err := c.result(t, dims[i]...); err != nil {
				return err
			}
		}
	}
	return c.add(description, args...)
}

// maxPool is a maxpool or its gradient of images in a layout.
func (c *composite) maxPool(r *row, tag uintptr) error {
	p, given := r.pool(), r.given()
	xPlain, err1 := c.d.plain(p.x...)
	yPlain, err2 := c.d.plain(p.y...)
	x, err3 := c.d.tagged(dnnlF32, tag, p.x...)
	y, err4 := c.d.tagged(dnnlF32, tag, p.y...)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	stride, kernel, pad := longs([]int{p.stride, p.stride}), longs([]int{p.kernel, p.kernel}), longs([]int{p.pad, p.pad})
	desc := new(descriptor)
	if err := c.d.call("dnnl_pooling_forward_desc_init", desc, forwardTraining, maxPooling, x, y, stride, kernel,
		pad, pad); err != nil {
		return err
	}
	forward, err := c.describe(desc, 0, 0)
	if err != nil {
		return err
	}
	places, err := c.query(forward, queryWorkspace)
	if err != nil {
		return err
	}
	tx, err1 := c.load(given[0], xPlain, x)
	ty, err2 := c.tensor(y)
	tp, err3 := c.tensor(places)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if err := c.add(forward, argument{argSrc, tx.memory}, argument{argDst, ty.memory}, argument{argWorkspace, tp.memory}); err != nil {
		return err
	}
	if r.op.Kind() == "max_pool2d" {
		return c.result(ty, p.y...)
	}
	if err := c.before(); err != nil {
		return err
	}
	desc = new(descriptor)
	if err := c.d.call("dnnl_pooling_backward_desc_init", desc, maxPooling, x, y, stride, kernel, pad, pad); err != nil {
		return err
	}
	description, err := c.describe(desc, 0, forward)
	if err != nil {
		return err
	}
	tdy, err1 := c.load(given[1], yPlain, y)
	tdx, err2 := c.tensor(x)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return errors.Join(
		c.add(description, argument{argDiffDst, tdy.memory}, argument{argWorkspace, tp.memory}, argument{argDiffSrc, tdx.memory}),
		c.result(tdx, p.x...))
}

// before runs what there is until now once, so that it is no part of later runs.
func (c *composite) before() error {
	_, err := c.run()
	c.steps, c.name = nil, ""
	return err
}

// norm is a layer normalization or its gradient. It also stands for RMS normalization, which oneDNN 2 does not have: of rows
// whose mean is 0 it gives the same numbers.
func (c *composite) norm(r *row) error {
	given := r.given()
	width := len(given[1])
	rows := len(given[0]) / width
	flags, eps := uint32(useScale|useShift), float32(normEps)
	switch op := r.op.(type) {
	case ops.LayerNorm:
		eps = float32(op.Eps)
	case ops.RMSNorm:
		flags, eps = useScale, float32(op.Eps)
	case ops.RMSNormGrad:
		flags = useScale
	}
	x, err1 := c.d.plain(rows, width)
	s, err2 := c.d.plain(rows)
	g, err3 := c.d.plain(width)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	desc := new(descriptor)
	if err := status("layer normalization", c.d.layerNorm(desc, forwardTraining, x, s, eps, flags)); err != nil {
		return err
	}
	forward, err := c.describe(desc, 0, 0)
	if err != nil {
		return err
	}
	tx, err1 := c.load(given[0], x, x)
	tg, err2 := c.load(given[1], g, g)
	tb, err3 := c.load(make([]float32, width), g, g)
	mean, err4 := c.tensor(s)
	variance, err5 := c.tensor(s)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if kind := r.op.Kind(); kind == "layer_norm" || kind == "rms_norm" {
		if kind == "layer_norm" {
			copy(tb.block.floats(width), given[2])
		}
		ty, err := c.tensor(x)
		if err != nil {
			return err
		}
		return errors.Join(
			c.add(forward, argument{argSrc, tx.memory}, argument{argScale, tg.memory}, argument{argShift, tb.memory},
				argument{argMean, mean.memory}, argument{argVariance, variance.memory}, argument{argDst, ty.memory}),
			c.result(ty, rows, width))
	}
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_desc_destroy", forward) })
	m, v := statistics(given[0], width)
	copy(mean.block.floats(rows), m)
	copy(variance.block.floats(rows), v)
	desc = new(descriptor)
	if err := status("layer normalization's gradient", c.d.layerNormGrad(desc, backward, x, x, s, eps, flags)); err != nil {
		return err
	}
	description, err := c.describe(desc, 0, forward)
	if err != nil {
		return err
	}
	tdy, err1 := c.load(given[2], x, x)
	tdx, err2 := c.tensor(x)
	tdg, err3 := c.tensor(g)
	tdb, err4 := c.tensor(g)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	err = errors.Join(
		c.add(description, argument{argSrc, tx.memory}, argument{argDiffDst, tdy.memory}, argument{argMean, mean.memory},
			argument{argVariance, variance.memory}, argument{argScale, tg.memory}, argument{argShift, tb.memory},
			argument{argDiffSrc, tdx.memory}, argument{argDiffScale, tdg.memory}, argument{argDiffShift, tdb.memory}),
		c.result(tdx, rows, width), c.result(tdg, width))
	if flags&useShift != 0 {
		err = errors.Join(err, c.result(tdb, width))
	}
	return err
}

// softmax is a softmax over rows, or its gradient.
func (c *composite) softmax(r *row) error {
	given := r.given()
	s := r.in[0].Shape
	l, err := c.d.plain(s...)
	if err != nil {
		return err
	}
	var more []argument
	var ty tensor
	if r.op.Kind() == "softmax_grad" {
		dy, err := c.load(given[1], l, l)
		if err != nil {
			return err
		}
		more = append(more, argument{argDiffDst, dy.memory})
	}
	tx, err1 := c.load(given[0], l, l)
	ty, err2 := c.tensor(l)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if more == nil {
		err = c.softmaxOf(l, tx, ty)
	} else {
		err = c.softmaxGradOf(l, tx, more[0], ty)
	}
	return errors.Join(err, c.result(ty, s...))
}

// softmaxOf adds a softmax over the last dimension.
func (c *composite) softmaxOf(l *layout, x, y tensor) error {
	description, err := c.softmaxForward(l)
	if err != nil {
		return err
	}
	return c.add(description, argument{argSrc, x.memory}, argument{argDst, y.memory})
}

func (c *composite) softmaxForward(l *layout) (uintptr, error) {
	desc := new(descriptor)
	if err := c.d.call("dnnl_softmax_forward_desc_init", desc, forwardTraining, l, l.last()); err != nil {
		return 0, err
	}
	return c.describe(desc, 0, 0)
}

// softmaxGradOf adds the gradient of a softmax, from its output.
func (c *composite) softmaxGradOf(l *layout, y tensor, dy argument, dx tensor) error {
	forward, err := c.softmaxForward(l)
	if err != nil {
		return err
	}
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_desc_destroy", forward) })
	desc := new(descriptor)
	if err := c.d.call("dnnl_softmax_backward_desc_init", desc, l, l, l.last()); err != nil {
		return err
	}
	description, err := c.describe(desc, 0, forward)
	if err != nil {
		return err
	}
	return c.add(description, argument{argDst, y.memory}, dy, argument{argDiffSrc, dx.memory})
}

// last is the index of the last dimension.
func (l *layout) last() uintptr { return uintptr(*(*int32)(unsafe.Pointer(l))) - 1 }

// attention is a composition, since oneDNN 2 has no attention: scores = q·kᵀ/√size, the mask, softmax, and times v, with a
// primitive for each. Queries, keys and values lie as the products want them, the queries of all heads that share keys below each
// other; bringing them there does not count. Of the gradient, the probabilities are those of the forward pass, which do
// not count either.
func (c *composite) attention(r *row) error {
	a, given := r.attention(), r.given()
	shared := a.heads / a.kvHeads
	blocks, queries := a.batch*a.kvHeads, shared*a.tokens
	q, k, v := a.split(given[0])
	wide, err1 := c.d.plain(blocks, queries, a.size) // of queries
	keys, err2 := c.d.plain(blocks, a.tokens, a.size)
	keysT, err3 := c.d.typed(dnnlF32, []int{blocks, a.size, a.tokens}, []int{a.tokens * a.size, 1, a.size})
	scores, err4 := c.d.plain(blocks, queries, a.tokens)
	maskLayout, err5 := c.d.plain(1, queries, a.tokens)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	tq, err1 := c.load(q, wide, wide)
	tk, err2 := c.load(k, keys, keys)
	tkT, err3 := c.load(k, keysT, keysT)
	tv, err4 := c.load(v, keys, keys)
	mask, err5 := c.load(a.mask(), maskLayout, maskLayout)
	ts, err6 := c.tensor(scores)
	ty, err7 := c.tensor(wide)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return err
	}
	scale := float32(1 / math.Sqrt(float64(a.size)))
	scaled, err := c.scaled(scale)
	if err != nil {
		return err
	}
	if err := c.multiplied(wide, keysT, scores, scaled, tq, tkT, ts); err != nil {
		return err
	}
	if !a.full {
		if err := c.added(scores, maskLayout, ts, mask); err != nil {
			return err
		}
	}
	if err := c.softmaxOf(scores, ts, ts); err != nil {
		return err
	}
	if r.op.Kind() == "attention" {
		err := errors.Join(c.multiplied(scores, keys, wide, 0, ts, tv, ty), c.result(ty, blocks, queries, a.size))
		c.out[0].order = a.join
		return err
	}
	if err := c.before(); err != nil {
		return err
	}
	scoresT, err1 := c.d.typed(dnnlF32, []int{blocks, a.tokens, queries}, []int{queries * a.tokens, 1, a.tokens})
	tdy, err2 := c.load(a.heads3(given[1], a.heads, 0, a.heads), wide, wide)
	tvT, err3 := c.load(v, keysT, keysT)
	tds, err4 := c.tensor(scores)
	tdq, err5 := c.tensor(wide)
	tdk, err6 := c.tensor(keys)
	tdv, err7 := c.tensor(keys)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return err
	}
	transposed := func(t tensor) (tensor, error) { // another view of the same memory
		memory := new(uintptr)
		err := c.d.call("dnnl_memory_create", memory, scoresT, c.d.engine, t.block.address())
		c.ends = append(c.ends, func() error { return c.d.call("dnnl_memory_destroy", *memory) })
		return tensor{scoresT, *memory, t.block}, err
	}
	tsT, err1 := transposed(ts)
	tdsT, err2 := transposed(tds)
	err = errors.Join(err1, err2,
		c.multiplied(scoresT, wide, keys, 0, tsT, tdy, tdv),
		c.multiplied(wide, keysT, scores, 0, tdy, tvT, tds),
		c.softmaxGradOf(scores, ts, argument{argDiffDst, tds.memory}, tds),
		c.multiplied(scores, keys, wide, scaled, tds, tk, tdq),
		c.multiplied(scoresT, wide, keys, scaled, tdsT, tq, tdk),
		c.result(tdq, blocks, queries, a.size), c.result(tdk, blocks, a.tokens, a.size), c.result(tdv, blocks, a.tokens, a.size))
	if err != nil {
		return err
	}
	// All three are one result, as Berth has them.
	dk, dv := c.out[1], c.out[2]
	c.out = c.out[:1]
	c.out[0].order = func(dq []float32) []float32 {
		return a.joined(dq, dk.block.floats(dk.n), dv.block.floats(dv.n))
	}
	return nil
}

// multiplied adds a product of batches of matrices.
func (c *composite) multiplied(a, b, y *layout, attributes uintptr, ta, tb, ty tensor) error {
	description, err := c.matmulOf(a, b, y, attributes)
	if err != nil {
		return err
	}
	return c.add(description, argument{argSrc, ta.memory}, argument{argWeights, tb.memory}, argument{argDst, ty.memory})
}

// added adds m, which is the same for all blocks, to x in place. As a part of the product before it oneDNN has no fast way
// for this.
func (c *composite) added(x, m *layout, tx, tm tensor) error {
	desc := new(descriptor)
	if err := c.d.call("dnnl_binary_desc_init", desc, binaryAdd, x, m, x); err != nil {
		return err
	}
	description, err := c.describe(desc, 0, 0)
	if err != nil {
		return err
	}
	return c.add(description, argument{argSrc, tx.memory}, argument{argSrc + 1, tm.memory}, argument{argDst, tx.memory})
}

// scaled are the attributes that multiply a result by a number.
func (c *composite) scaled(scale float32) (uintptr, error) {
	p, factor := new(uintptr), new(float32)
	*factor = scale
	if err := c.d.call("dnnl_primitive_attr_create", p); err != nil {
		return 0, err
	}
	c.ends = append(c.ends, func() error { return c.d.call("dnnl_primitive_attr_destroy", *p) })
	return *p, c.d.call("dnnl_primitive_attr_set_output_scales", *p, 1, 0, factor)
}

// heads3 takes heads from..to of x, whose rows have so many, as [batch, heads, tokens, size].
func (a attention) heads3(x []float32, all, from, to int) []float32 {
	y := make([]float32, 0, a.batch*(to-from)*a.tokens*a.size)
	for b := range a.batch {
		for h := from; h < to; h++ {
			for t := range a.tokens {
				at := ((b*a.tokens+t)*all + h) * a.size
				y = append(y, x[at:at+a.size]...)
			}
		}
	}
	return y
}

// split is the queries, keys and values of qkv.
func (a attention) split(qkv []float32) (q, k, v []float32) {
	h, g := a.heads, a.kvHeads
	return a.heads3(qkv, h+2*g, 0, h), a.heads3(qkv, h+2*g, h, h+g), a.heads3(qkv, h+2*g, h+g, h+2*g)
}

// join is heads as rows of tokens have them.
func (a attention) join(x []float32) []float32 { return a.joined(x) }

// joined has the heads of several tensors side by side.
func (a attention) joined(parts ...[]float32) []float32 {
	y := make([]float32, 0)
	for b := range a.batch {
		for t := range a.tokens {
			for _, p := range parts {
				heads := len(p) / (a.batch * a.tokens * a.size)
				for h := range heads {
					at := ((b*heads+h)*a.tokens + t) * a.size
					y = append(y, p[at:at+a.size]...)
				}
			}
		}
	}
	return y
}

// mask is -1e9 where a query does not see a key, for the queries of all heads that share keys.
func (a attention) mask() []float32 {
	m := make([]float32, 0)
	for range a.heads / a.kvHeads {
		for q := range a.tokens {
			for k := range a.tokens {
				hidden := float32(0)
				if k > q && !a.full {
					hidden = -1e9
				}
				m = append(m, hidden)
			}
		}
	}
	return m
}
