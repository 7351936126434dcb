package serve

import (
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/engine/shape"
)

// scanner reads values of JSON that is known to be valid, and keeps the place for
// errors.
type scanner struct {
	b     []byte
	at    int
	place []int // indices of the lists that it is in
	field string
	key   string // of an object of a list, "" outside
}

// where is the place: "inputs[3][0]", or "inputs[3].height".
func (x *scanner) where() string {
	text := x.field
	for _, i := range x.place {
		text += fmt.Sprintf("[%d]", i)
	}
	if x.key != "" {
		text += "." + short(x.key)
	}
	return text
}

// next is the first byte of the next value or end of a list, 0 at the end.
func (x *scanner) next() byte {
	for x.at < len(x.b) {
		switch c := x.b[x.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			x.at++
		default:
			return c
		}
	}
	return 0
}

// what words the next value.
func (x *scanner) what() string {
	switch x.next() {
	case '[':
		return "a list"
	case '{':
		return "an object"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	case ']', '}', 0:
		return "nothing"
	}
	return "a number"
}

// list reads a list: each reads one element.
func (x *scanner) list(each func(i int) error) error {
	if x.next() != '[' {
		return bad(x.where(), "this is %s: send a list", x.what())
	}
	x.at++
	x.place = append(x.place, 0)
	for i := 0; x.next() != ']'; i++ {
		x.place[len(x.place)-1] = i
		if err := each(i); err != nil {
			return err
		}
	}
	x.at++
	x.place = x.place[:len(x.place)-1]
	return nil
}

// token is the next value, which is no list and no object.
func (x *scanner) token() []byte {
	if x.next() == '"' {
		from := x.at
		for x.at++; x.b[x.at] != '"'; x.at++ {
			if x.b[x.at] == '\\' {
				x.at++
			}
		}
		x.at++
		return x.b[from:x.at]
	}
	from := x.at
	for x.at < len(x.b) {
		switch x.b[x.at] {
		case ',', ']', '}', ':', ' ', '\t', '\r', '\n':
			return x.b[from:x.at]
		}
		x.at++
	}
	return x.b[from:x.at]
}

// numbers reads a number, or lists of them as s says, or all of them in one list.
func (x *scanner) numbers(s shape.Shape, add func(number []byte) error) error {
	if s.Rank() > 1 && x.flat() {
		s = shape.Of(s.Elems())
	}
	if s.Rank() == 0 {
		if c := x.next(); c != '-' && (c < '0' || c > '9') {
			return bad(x.where(), "this is %s: send a number", x.what())
		}
		return add(x.token())
	}
	n := 0
	err := x.list(func(i int) error {
		if n = i + 1; n > s[0] {
			return bad(x.where(), "the list is too long: send %d elements", s[0])
		}
		return x.numbers(s[1:], add)
	})
	if err == nil && n < s[0] {
		err = bad(x.where(), "the list has %d of its %d elements: send all", n, s[0])
	}
	return err
}

// flat reports whether the next value is a list of anything but lists.
func (x *scanner) flat() bool {
	c := x.first()
	return c != '[' && c != ']' && c != 0
}

// first is the first byte within the list that comes next, 0 if none comes.
func (x *scanner) first() byte {
	from := x.at
	defer func() { x.at = from }()
	if x.next() != '[' {
		return 0
	}
	x.at++
	return x.next()
}

// float reads a number of 32 bits.
func (x *scanner) float(number []byte) (float32, error) {
	v, err := strconv.ParseFloat(string(number), 32)
	if err != nil {
		return 0, bad(x.where(), "%.40s is too large: send a number below 3.4e38", number)
	}
	return float32(v), nil
}

// skip passes over the next value.
func (x *scanner) skip() {
	for depth := 0; ; {
		switch x.next() {
		case '[', '{':
			depth++
			x.at++
		case ']', '}':
			depth--
			x.at++
		default:
			x.token()
		}
		if depth == 0 {
			return
		}
	}
}
