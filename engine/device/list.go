package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrList is the cause of errors about a list of devices.
var ErrList = errors.New("cannot use this list of devices")

// Counted is a number of devices of a kind.
type Counted struct {
	Kind  string
	Count int
}

// mostOfAKind is the most devices of a kind.
const mostOfAKind = 9999

// ParseList reads "cpu:2,null:1"; a kind without a number is one device. A kind
// given twice is refused: its devices would be numbered from 0, and share its
// memory, each time they are opened.
func ParseList(text string) ([]Counted, error) {
	var list []Counted
	for _, item := range strings.Split(text, ",") {
		kind, count, given := strings.Cut(item, ":")
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("%w: %q: expected a kind and a number, such as cpu:2: %w", ErrList, item, err)
			}
			if n > mostOfAKind {
				return nil, fmt.Errorf("%w: %q: expected at most %d devices of a kind", ErrList, item, mostOfAKind)
			}
		}
		for _, x := range list {
			if x.Kind == kind {
				return nil, fmt.Errorf("%w: %s names %s more than once: write %s:%d for so many of them", ErrList, text, kind, kind, x.Count+n)
			}
		}
		list = append(list, Counted{kind, n})
	}
	return list, nil
}
