package eager

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
)

func TestHandlers(t *testing.T) {
	var log strings.Builder
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler { return composite{Logging(devices, &log)} }})
	r.expect(r.One(ops.Lerp{T: 0.5}, r.floats([]float32{1, 2}, 2), r.floats([]float32{3, 6}, 2)), 2, 4)
	r.One(ops.AddOp, r.floats([]float32{1}, 1), nil)
	for _, want := range []string{
		"sub{Fn:sub}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"affine{Scale:0.5 Shift:0}(f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[1], nil) -> error: ",
		"argument 1 is nil\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
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
