package eager

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

func TestHandlers(t *testing.T) {
	var log strings.Builder
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler { return composite{Logging(devices, &log)} }})
	r.expect(r.One(ops.Lerp{T: 0.5}, r.floats([]float32{1, 2}, 2), r.floats([]float32{3, 6}, 2)), 2, 4)
	r.One(ops.AddOp, r.floats([]float32{1}, 1), Tensor{})
	double := Compile("double", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{ops.Add(b, in[0], in[0])}
	})
	r.expect(r.One(double, r.floats([]float32{1, 2}, 2)), 2, 4)
	r.expect(r.One(Freeze(ops.Unary{Fn: "neg"}), r.floats([]float32{1, 2}, 2)), -1, -2)
	for _, want := range []string{
		"sub{Fn:sub}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"affine{Scale:0.5 Shift:0}(f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[1], nil) -> error: ",
		"argument 1 is the zero Tensor: pass the result of a call or of FromHost\n",
		": double(f32[2]) -> f32[2] on cpu:0\n",
		": neg{Fn:neg}(f32[2]) -> f32[2] on cpu:0\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
	}
}

func TestRefusedByContext(t *testing.T) {
	none, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(none, ContextOptions{Handler: func(Handler) Handler { return nil }})
	fails(t, errors.Join(err, none[0].Close()), nil, "Handler returned nil")
	r := open(t, 1, ContextOptions{})
	fails(t, r.One(nil, r.floats([]float32{1}, 1)).Err(), nil, "handler_test.go:", "the op is nil")
	x := r.floats([]float32{1}, 1)
	tape := r.NewTape()
	y := tape.One(ops.Unary{Fn: "neg"}, x.Ref())
	if err := errors.Join(tape.Close(), tape.Close()); err != nil {
		t.Error(err)
	}
	fails(t, tape.One(ops.Unary{Fn: "neg"}, x.Ref()).Err(), nil, "handler_test.go:", "neg: the tape is closed")
	_, err = tape.Gradients(y, x)
	fails(t, err, nil, "handler_test.go:", "gradients: the tape is closed")
	if err := errors.Join(x.Release(), y.Release()); err != nil {
		t.Error(err)
	}
	if told := r.told(); len(told) != 2 {
		t.Errorf("told of %v", told)
	}
}

// composite is a handler that expands one op and passes on the others.
type composite struct{ next Handler }

func (h composite) Execute(inv *Invocation) {
	if inv.Op.Kind() != "lerp" || len(inv.Args) != 2 {
		h.next.Execute(inv)
		return
	}
	c, a, b := inv.Context(), inv.Args[0], inv.Args[1]
	d := c.One(ops.Binary{Fn: "sub"}, b, a.Ref())
	inv.Results = c.Execute(ops.AddOp, a, c.One(ops.Affine{Scale: inv.Op.(ops.Lerp).T}, d))
}

// A handler that refuses, panics or forgets the results fails its call alone: the arguments are
// consumed, and nothing stays held.
func TestHandlersThatFail(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		execute handlerFunc
		want    string
	}{
		"refuses":              {func(inv *Invocation) { inv.Fail(broken) }, "neg: broken"},
		"refuses what was run": {func(inv *Invocation) { bare(inv).Execute(inv); inv.Fail(broken) }, "neg: broken"},
		"panics":               {func(*Invocation) { panic("no rows") }, "neg: the handler eager.handlerFunc panicked: no rows (at "},
		"forgets":              {func(*Invocation) {}, "neg: the handler eager.handlerFunc set 0 results, expected at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			r := open(t, 1, ContextOptions{Handler: func(Handler) Handler { return Logging(c.execute, &log) }})
			x := r.floats([]float32{1}, 1)
			y := r.One(ops.Unary{Fn: "neg"}, x)
			fails(t, y.Err(), nil, "handler_test.go:", c.want)
			if err := x.Release(); err == nil {
				t.Error("the call has not consumed its argument")
			}
			if !strings.Contains(log.String(), "-> error: ") || len(r.told()) != 1 {
				t.Errorf("log %q, told of %v", log.String(), r.told())
			}
		})
	}
}

// A handler that sets some of the results alone fails the gradients that read all of them.
func TestHandlerThatForgetsAGradient(t *testing.T) {
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler {
		return handlerFunc(func(inv *Invocation) {
			devices.Execute(inv)
			if inv.Op.Kind() == "gradients" {
				_ = inv.Results[1].Release() // live
				inv.Results = inv.Results[:1]
			}
		})
	}})
	x, y := r.floats([]float32{2}, 1), r.floats([]float32{3}, 1)
	tape := r.NewTape()
	loss := tape.One(ops.Binary{Fn: "mul"}, x.Ref(), y.Ref())
	for k := range compiledFrom {
		slopes, err := tape.Gradients(loss, x, y)
		if err != nil {
			t.Fatal(err)
		}
		if k+1 < compiledFrom { // op by op
			r.expect(slopes[0], 3)
			r.expect(slopes[1], 2)
			continue
		}
		fails(t, slopes[1].Err(), nil, "handler_test.go:", "gradients: the handler eager.handlerFunc set 1 results, expected at least 2")
	}
	if err := errors.Join(tape.Close(), loss.Release(), x.Release(), y.Release()); err != nil {
		t.Error(err)
	}
}

// handlerFunc is a handler made of a function.
type handlerFunc func(inv *Invocation)

// bare is the handler that runs calls on devices.
func bare(inv *Invocation) Handler { return &deviceHandler{inv.Context()} }

func (f handlerFunc) Execute(inv *Invocation) { f(inv) }
