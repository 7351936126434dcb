package cl

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/fuse"
)

// unitKernels is the most kernels of a unit. Drivers compile many kernels as one program
// faster than as many; between two units compiling can be stopped.
const unitKernels = 32

// unit is kernels that are compiled together.
type unit struct {
	calls []*gen.Call
	text  string
	first []int // per call: the line of the text on which its source begins, from 1 on
}

func newUnit(calls []*gen.Call) *unit {
	u := &unit{calls: calls, text: gen.OpenCL}
	for _, c := range calls {
		u.first = append(u.first, 1+strings.Count(u.text, "\n"))
		u.text += c.Source
	}
	return u
}

const buildLog = 0x1183 // CL_PROGRAM_BUILD_LOG

// compile makes a program of a unit's text. The caller releases it.
func (c *context) compile(u *unit) (uintptr, error) {
	to := c.caller()
	source, size := []byte(u.text+"\x00"), uintptr(len(u.text))
	list := []uintptr{at(to, &source[0])}
	program, err := to.create(createProgramWithSource, c.handle, 1, at(to, &list[0]), at(to, &size))
	if err != nil {
		return 0, err
	}
	if err := c.build(program); err != nil {
		log, _ := to.text(getProgramBuildInfo, program, c.of.handle, buildLog)
		return 0, errors.Join(u.failure(err, log), to.call(releaseProgram, program))
	}
	return program, nil
}

// build compiles or links a program.
func (c *context) build(program uintptr) error {
	to := c.caller()
	id, options := c.of.handle, []byte(buildOptions(c.of)+"\x00")
	return to.call(buildProgram, program, 1, at(to, &id), at(to, &options[0]), 0, 0)
}

// logLine is an error in a compiler's log: a line, perhaps a column, and a text.
var logLine = regexp.MustCompile(`(?m)^.*?(\d+)(?::\d+)?\)?: *(?:fatal )?error:? *(.*)$|^.*error: .*?:(\d+):\d+: *(.*)$`)

// failure adds to the error of a compilation the op whose kernel it is about.
func (u *unit) failure(err error, log string) error {
	where, what := 0, strings.TrimSpace(log)
	if m := logLine.FindStringSubmatch(log); m != nil {
		where, _ = strconv.Atoi(m[1] + m[3])
		what = m[2] + m[4]
	}
	if e, ok := errors.AsType[*callError](err); !ok || e.status != buildFailure {
		return err
	}
	of := -1
	for i, first := range u.first {
		if first <= where {
			of = i
		}
	}
	if of < 0 {
		return fmt.Errorf("%w: the driver's compiler says: %s: update the driver, use another device, or run what it refuses op by op (--compile beside)", err, what)
	}
	line := strings.TrimSpace(strings.Split(u.text, "\n")[min(where, strings.Count(u.text, "\n"))-1])
	return fmt.Errorf("%s: %w: the driver's compiler says: %s, of its kernel's line %d, %q: update the driver, use another device, or run what it refuses op by op (--compile beside)",
		describe(u.calls[of]), err, what, where-u.first[of]+1, line)
}

// describe names the op of a kernel.
func describe(c *gen.Call) string {
	if c.Node == nil {
		return "kernel " + c.Name
	}
	return fuse.Single(c.Node).Describe()
}
