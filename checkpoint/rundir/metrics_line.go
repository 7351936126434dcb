package rundir

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measured is a line of metrics.jsonl. It is valid until the call ends that is given it.
type Measured struct {
	Step, Epoch int
	Boundary    bool      // of a boundary, not of a step
	Time        time.Time // of a boundary; zero: it has none
	Fields      []Field   // the other numbers, each name once
}

// Field is a number of a line.
type Field struct {
	Name  string
	Value float64 // NaN: the line has null, as the metric is not defined
}

// lines reads lines one after another. It keeps the names of their fields, so that a line allocates nothing.
type lines struct {
	names  map[string]string
	fields []Field
}

const (
	mostNames  = 256 // that are kept; a file with more has none that come again
	mostByScan = 64  // fields of a line that are compared with each other
)

// parse reads a line; ok is false if a run has not written it. The lines that runs write are scanned. All others, as those with
// a list, are read by encoding/json, and what both read they read alike.
func (l *lines) parse(line []byte) (m Measured, ok bool) {
	if m, ok = l.scan(line); ok {
		return m, true
	}
	return l.decode(line)
}

// decode reads a line by encoding/json.
func (l *lines) decode(line []byte) (m Measured, ok bool) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return m, false
	}
	step, isStep := fields["step"].(float64)
	epoch, isEpoch := fields["epoch"].(float64)
	if !isStep || !isEpoch || !isCount(step) || !isCount(epoch) {
		return m, false
	}
	_, ofStep := fields["loss"]
	m = Measured{Step: int(step), Epoch: int(epoch), Boundary: !ofStep}
	if text, ok := fields["time"].(string); ok {
		m.Time, _ = time.Parse(time.RFC3339, text)
	}
	l.fields = l.fields[:0]
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch x := fields[name].(type) {
		case float64:
			if name != "step" && name != "epoch" {
				l.fields = append(l.fields, Field{strings.ToValidUTF8(name, "?"), x})
			}
		case nil:
			l.fields = append(l.fields, Field{strings.ToValidUTF8(name, "?"), math.NaN()})
		}
	}
	m.Fields = l.fields
	return m, true
}

// maxStep is a number of steps beyond that of any run.
const maxStep = 1 << 53

func isCount(x float64) bool { return x >= 0 && x <= maxStep }

// scan reads a flat object without spaces whose names are plain ASCII and whose values are numbers or null, with a time or
// without. ok is false for all else, which may still be a line.
func (l *lines) scan(line []byte) (m Measured, ok bool) {
	b, found := bytes.CutPrefix(bytes.TrimSuffix(line, newline), []byte("{"))
	if !found {
		return m, false
	}
	l.fields = l.fields[:0]
	m.Boundary = true
	step, epoch := -1., -1.
	for more := true; more; {
		name, rest, ok := scanText(b, true)
		if !ok || len(rest) < 2 || rest[0] != ':' {
			return m, false
		}
		b = rest[1:]
		x, isNumber := math.NaN(), false
		var text []byte
		switch b[0] {
		case '"':
			if text, b, ok = scanText(b, false); !ok {
				return m, false
			}
		case 'n':
			if b, ok = bytes.CutPrefix(b, []byte("null")); !ok {
				return m, false
			}
		default:
			if x, b, isNumber = scanNumber(b); !isNumber {
				return m, false
			}
		}
		switch {
		case len(b) > 1 && b[0] == ',':
			b = b[1:]
		case len(b) == 1 && b[0] == '}':
			more = false
		default:
			return m, false
		}
		switch string(name) { // of two fields of a name the second counts, but then encoding/json reads the line
		case "step":
			if !isNumber || step >= 0 {
				return m, false
			}
			step = x
		case "epoch":
			if !isNumber || epoch >= 0 {
				return m, false
			}
			epoch = x
		case "time":
			if text == nil || !m.Time.IsZero() {
				return m, false
			}
			m.Time, _ = time.Parse(time.RFC3339, string(text))
		default:
			if string(name) == "loss" {
				m.Boundary = false
			}
			if text != nil || !l.add(name, x) {
				return m, false
			}
		}
	}
	if !isCount(step) || !isCount(epoch) {
		return m, false
	}
	m.Step, m.Epoch, m.Fields = int(step), int(epoch), l.fields
	return m, true
}

// add adds a field, unless the line has one of that name, or many.
func (l *lines) add(name []byte, x float64) bool {
	if len(l.fields) == mostByScan {
		return false
	}
	for _, f := range l.fields {
		if f.Name == string(name) {
			return false
		}
	}
	known, ok := l.names[string(name)]
	if !ok {
		known = string(name)
		if l.names == nil {
			l.names = map[string]string{}
		}
		if len(l.names) < mostNames {
			l.names[known] = known
		}
	}
	l.fields = append(l.fields, Field{known, x})
	return true
}

// scanText cuts a string without escapes off b. plain refuses what is no ASCII.
func scanText(b []byte, plain bool) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i, c := range b[1:] {
		switch {
		case c == '"':
			return b[1 : 1+i : 1+i], b[2+i:], true
		case c < ' ', c == '\\', plain && c >= 0x7f:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// scanNumber cuts a JSON number off b.
func scanNumber(b []byte) (x float64, rest []byte, ok bool) {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := func() (n int) {
		for i < len(b) && b[i]-'0' <= 9 {
			i++
			n++
		}
		return n
	}
	first := i
	if n := digits(); n == 0 || n > 1 && b[first] == '0' {
		return 0, nil, false
	}
	if first == 0 && i <= 15 && (i == len(b) || b[i] != '.' && b[i]|0x20 != 'e') { // an integer that a float64 holds
		for _, c := range b[:i] {
			x = 10*x + float64(c-'0')
		}
		return x, b[i:], true
	}
	if i < len(b) && b[i] == '.' {
		if i++; digits() == 0 {
			return 0, nil, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if digits() == 0 {
			return 0, nil, false
		}
	}
	x, err := strconv.ParseFloat(string(b[:i]), 64)
	return x, b[i:], err == nil
}

// record is a line with its values by name.
func (l *lines) record(line []byte) (r Record, ok bool) {
	m, ok := l.parse(line)
	if !ok {
		return r, false
	}
	r = Record{Step: m.Step, Epoch: m.Epoch, Boundary: m.Boundary, Time: m.Time, Values: make(map[string]float64, len(m.Fields)), Text: line}
	for _, f := range m.Fields {
		if !math.IsNaN(f.Value) {
			r.Values[f.Name] = f.Value
		}
	}
	return r, true
}
