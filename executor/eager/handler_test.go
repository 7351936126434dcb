package eager

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/residency/ledger"
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

// A call's place is logged once, also where the call fails. An argument's failure has the place where it arose.
func TestLoggedPlaces(t *testing.T) {
	var log strings.Builder
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler { return Logging(devices, &log) }})
	bad := r.One(ops.AddOp, r.floats([]float32{1}, 1), r.floats([]float32{1, 2, 3}, 3), Tensor{})
	r.One(ops.Unary{Fn: "neg"}, bad)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("logged %q", lines)
	}
	for i, want := range []int{1, 2} { // the second line names the first call's place, too
		if n := strings.Count(lines[i], "handler_test.go:"); n != want || !strings.Contains(lines[i], " -> error: ") {
			t.Errorf("line %q has %d places, expected %d", lines[i], n, want)
		}
	}
}

// With values, the results of each call are summed up, the failures of the data, too, and nothing stays held.
func TestLoggingValues(t *testing.T) {
	for name, change := range map[string]func(*rig){"at once": func(*rig) {}, "queued": func(r *rig) { r.queued() }} {
		t.Run(name, func(t *testing.T) { testLoggingValues(t, change) })
	}
}

func testLoggingValues(t *testing.T, change func(*rig)) {
	var log strings.Builder
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler { return LoggingValues(devices, &log) }})
	change(r)
	x := r.One(ops.AddOp, r.floats([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 8), r.floats([]float32{1}, 1))
	y := r.One(ops.Unary{Fn: "log"}, r.floats([]float32{-1, 0, 1}, 3))
	r.expect(r.One(ops.Unary{Fn: "neg"}, x), -2, -3, -4, -5, -6, -7, -8, -9)
	failed := r.badGather()
	wants := []string{
		" on cpu:0\n  f32[8]: [2 3 4 … 7 8 9], least 2, largest 9, mean 5.5\n",
		" on cpu:0\n  f32[3]: [NaN -Inf 0], least 0, largest 0, mean 0, 1 NaN, 1 Inf\n",
		"\n  f32[8]: [-2 -3 -4 … -7 -8 -9], least -9, largest -2, mean -5.5\n",
		"\n  error: gather: ",
	}
	for _, want := range wants {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
	}
	if got, want := r.Ledger().OfReason(ledger.Debug).Bytes, int64(32+12+32); got != want {
		t.Errorf("%d bytes were read, expected %d", got, want)
	}
	if err := errors.Join(y.Release(), failed.Release()); err != nil {
		t.Error(err)
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
