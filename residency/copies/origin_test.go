package copies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/copies"
)

// over is a queue whose operations have ended: well, or with a failure.
type over struct{ err error }

func (*over) Finished(uint64) bool                          { return true }
func (q *over) Err(uint64) error                            { return q.err }
func (q *over) Await(ctx context.Context, seq uint64) error { return q.err }

// event is the end of an operation on a queue of its own.
func event(err error) device.Event { return device.Event{Queue: &over{err}, Seq: 1} }

// lost is the failure of a copy that carried contents; nil if all went well.
func lost(o *copies.Origin) error {
	for _, e := range o.Carriers() {
		if err := e.Err(); err != nil {
			return err
		}
	}
	return nil
}

// A failed task spoils what it should have written, and each copy of that. The contents from
// before have come along: only a failed copy loses them.
func TestOrigin(t *testing.T) {
	errTask, errCopy := errors.New("task"), errors.New("copy")
	for _, c := range []struct {
		name          string
		task, move    error
		first, second error // of copies, the second from the first
		failure, lost error
	}{
		{name: "all well"},
		{name: "task", task: errTask, failure: errTask},
		{name: "move", move: errCopy, failure: errCopy, lost: errCopy},
		{name: "first copy", first: errCopy, failure: errCopy, lost: errCopy},
		{name: "second copy", second: errCopy, failure: errCopy, lost: errCopy},
		{name: "task and copy", task: errTask, second: errCopy, failure: errTask, lost: errCopy},
	} {
		var source, middle, end copies.Origin
		source.Written(event(nil), true)
		source.Written(event(c.task), false)
		source.Moved = event(c.move)
		middle.Copied(&source, event(c.first))
		end.Copied(&middle, event(c.second))
		if got := end.Failure(); got != c.failure {
			t.Errorf("%s: the failure is %v", c.name, got)
		}
		if got := lost(&end); got != c.lost {
			t.Errorf("%s: the contents from before are lost: %v", c.name, got)
		}
		end.Written(event(nil), false)
		if got := end.Failure(); got != nil {
			t.Errorf("%s: after a task that ended well, the failure is %v", c.name, got)
		}
	}
}

// The first contents of a buffer have nothing before them: if their task fails, nothing is left.
func TestOriginOfFirstContents(t *testing.T) {
	boom := errors.New("boom")
	var o copies.Origin
	o.Written(event(boom), true)
	if got := lost(&o); got != boom {
		t.Errorf("lost: %v", got)
	}
	if o.Clear(); o.Failure() != nil || lost(&o) != nil {
		t.Error("a cleared origin remembers")
	}
}
