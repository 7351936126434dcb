package cl

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device/gpu/gen"
)

// library is the kernels of a device that are compiled.
type library struct {
	context *context
	status  uintptr // the status word's object
	lanes   int     // of the work groups of kernels that take any number

	mu      sync.Mutex
	kernels map[string]uintptr // by name
	tables  tables
}

func newLibrary(c *context) (*library, error) {
	to := c.caller()
	status, err := to.create(createBuffer, c.handle, readWrite, statusBytes, 0)
	if err != nil {
		return nil, err
	}
	l := &library{context: c, status: status, lanes: min(gen.GroupLanes, c.of.group), kernels: map[string]uintptr{}, tables: tables{}}
	if err := c.write(status, make([]byte, statusBytes)); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// statusBytes is the size of the status word's object.
const statusBytes = 64

// add compiles the kernels that are not there yet, as one program.
func (l *library) add(calls []gen.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	var names []string
	for _, c := range calls {
		if _, ok := l.kernels[c.Name]; !ok {
			l.kernels[c.Name] = 0
			names = append(names, c.Name)
			text.WriteString(c.Source)
		}
	}
	if names == nil {
		return nil
	}
	if err := l.compile(gen.OpenCL+text.String(), names); err != nil {
		for _, n := range names {
			delete(l.kernels, n)
		}
		return err
	}
	return nil
}

const buildLog = 0x1183 // CL_PROGRAM_BUILD_LOG

// compile compiles a text. It needs mu.
func (l *library) compile(text string, names []string) error {
	defer keepSignals()()
	to := l.context.caller()
	source, size, options := []byte(text+"\x00"), uintptr(len(text)), []byte(buildOptions(l.context.of)+"\x00")
	list := []uintptr{at(to, &source[0])}
	program, err := to.create(createProgramWithSource, l.context.handle, 1, at(to, &list[0]), at(to, &size))
	if err != nil {
		return err
	}
	id := l.context.of.handle
	if err := to.call(buildProgram, program, 1, at(to, &id), at(to, &options[0]), 0, 0); err != nil {
		log, _ := to.text(getProgramBuildInfo, program, buildLog, id)
		return errors.Join(fmt.Errorf("BUG: %w:\n%s\n%s", err, log, text), to.call(releaseProgram, program))
	}
	for _, n := range names {
		name := []byte(n + "\x00")
		if l.kernels[n], err = to.create(createKernel, program, at(to, &name[0])); err != nil {
			return errors.Join(err, to.call(releaseProgram, program))
		}
	}
	return to.call(releaseProgram, program)
}

// close gives all that the library made back to the driver.
func (l *library) close() error {
	to := l.context.caller()
	var errs []error
	for _, k := range l.kernels {
		errs = append(errs, to.call(releaseKernel, k))
	}
	for _, object := range l.tables {
		errs = append(errs, to.call(releaseMemObject, object))
	}
	return errors.Join(append(errs, to.call(releaseMemObject, l.status))...)
}
