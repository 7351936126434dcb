package cl

import (
	"errors"
	"hash/fnv"

	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/shape"
)

// tables are the constant arrays of kernels, each an object of its own. They count in no
// budget: a program has one for each schedule of a learning rate.
type tables map[uint64]uintptr // by a hash of the contents

// fill gives the tables of calls an object each, as the value of their argument.
func (l *library) fill(calls []gen.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range calls {
		for k := range calls[i].Args {
			a := &calls[i].Args[k]
			if a.Role != gen.Table {
				continue
			}
			object, err := l.table(*a.Floats)
			if err != nil {
				return err
			}
			a.Value = int64(object)
		}
	}
	return nil
}

// table returns a memory object with these contents. It needs mu.
func (l *library) table(floats []float32) (object uintptr, err error) {
	b := shape.Bytes(floats)
	h := fnv.New64a()
	h.Write(b)
	if object = l.tables[h.Sum64()]; object != 0 {
		return object, nil
	}
	to := l.context.caller()
	if object, err = to.create(createBuffer, l.context.handle, readWrite, uintptr(len(b)), 0); err != nil {
		return 0, err
	}
	if err := l.context.write(object, b); err != nil {
		return 0, errors.Join(err, to.call(releaseMemObject, object))
	}
	l.tables[h.Sum64()] = object
	return object, nil
}
