package executor

import (
	"context"
	"slices"
)

// EndWith ends the runtime's work with ctx: tasks that have not begun by then are skipped,
// and fail with ctx's cause. The runtime is unusable afterwards. It is for work whose results
// nobody wants after that, with nothing to save. Close undoes it, a second call replaces
// it, and Resume leaves it behind: call it again.
func (r *Runtime) EndWith(ctx context.Context) {
	r.stopEnding()
	streams := slices.Clone(r.compute)
	r.ending = context.AfterFunc(ctx, func() {
		for _, s := range streams {
			s.Cancel(context.Cause(ctx))
		}
	})
}

// stopEnding undoes EndWith.
func (r *Runtime) stopEnding() {
	if r.ending != nil {
		r.ending()
		r.ending = nil
	}
}
