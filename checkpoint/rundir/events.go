package rundir

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir/tfevents"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// events is the file of TensorBoard's events that a call writes: the numbers of the
// lines of metrics.jsonl. Records beyond maxWaiting bytes that cannot be written
// are lost. A nil *events writes nothing. Metrics owns it, and gives it each line.
type events struct {
	file  appended // whole records
	lost  Lost     // for good: the newest ones
	upTo  int      // steps of the run that earlier calls took
	begun bool     // a record was appended
}

// eventsName is the name of a file of events. TensorBoard reads the files of a
// folder in the order of their names: the digits are seconds since 1970.
var eventsName = regexp.MustCompile(`^events\.out\.tfevents\.(\d{10})\.berth$`)

// eventFiles are the names of the files of events in a folder, in order.
func eventFiles(dir string) (names []string) {
	list, _ := os.ReadDir(dir) // without a folder there are none
	for _, f := range list {
		if f.Type().IsRegular() && eventsName.MatchString(f.Name()) {
			names = append(names, f.Name())
		}
	}
	slices.Sort(names)
	return names
}

// newEvents begins a file of events after those that the folder has. The run has
// taken upTo steps: what older files have of later ones does not count any more.
func newEvents(dir string, upTo int, warn func(string)) *events {
	stamp := time.Now().Unix()
	if names := eventFiles(dir); len(names) > 0 {
		newest, _ := strconv.ParseInt(eventsName.FindStringSubmatch(names[len(names)-1])[1], 10, 64)
		stamp = max(stamp, newest+1)
	}
	path := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.berth", stamp))
	return &events{file: appended{path: path, warn: warn, whole: tfevents.Whole}, upTo: upTo}
}

// write appends the numbers of a line, whose text is given; flush makes them
// visible.
func (e *events) write(line Line, text []byte) {
	if e == nil {
		return
	}
	now, waiting := time.Now(), e.file.waiting
	if !e.begun {
		waiting = tfevents.AppendStart(tfevents.AppendVersion(waiting, now), now, int64(e.upTo)+1)
		e.begun = true
	}
	if len(waiting) >= maxWaiting {
		e.lost.add(line.Taken())
		return
	}
	group := "step/"
	if _, ok := line.(runstate.Boundary); ok {
		group = "boundary/"
	}
	e.file.waiting = tfevents.AppendScalars(waiting, now, int64(line.Taken()), scalarsOf(group, text))
	if len(e.file.waiting) >= flushAt && !e.file.failed {
		e.flush()
	}
}

// scalarsOf are the numbers of a line of metrics.jsonl, in the order of their
// names, each behind the text before. The step and the epoch are no metrics.
func scalarsOf(before string, line []byte) (list []tfevents.Scalar) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		panic(fmt.Sprintf("BUG: a line of metrics is not JSON: %v", err))
	}
	delete(fields, "step")
	delete(fields, "epoch")
	return appendScalars(nil, before, fields)
}

func appendScalars(list []tfevents.Scalar, before string, fields map[string]any) []tfevents.Scalar {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[name].(type) {
		case float64:
			list = append(list, tfevents.Scalar{Tag: before + name, Value: float32(v)})
		case map[string]any:
			list = appendScalars(list, before+name+"/", v)
		}
	}
	return list
}

// flush writes the records out, as those of metrics.jsonl are. A file without
// numbers is not made.
func (e *events) flush() {
	if e != nil && e.begun {
		e.file.flush(noMore)
	}
}

// noMore makes no further pieces wait.
func noMore() bool { return false }

// end writes the records that wait, to the disk itself, and says which are lost.
func (e *events) end() {
	if e == nil || !e.begun {
		return
	}
	err := e.file.write(noMore)
	if err == nil {
		err = e.file.f.Sync()
	}
	all := e.lost
	for step := range tfevents.Steps(e.file.waiting) {
		all.add(step)
	}
	e.file.waiting, e.lost = nil, Lost{}
	e.file.lacks("records", &all, err)
}

func (e *events) close() error {
	if e == nil {
		return nil
	}
	return e.file.close()
}
