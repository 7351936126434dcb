package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/units"
)

// order is a schedule of microbatches: one of the words, the path of a file, or the
// text of one. A config that was loaded has the text in place of the path, so that
// a run does not depend on the file.
type order struct{ words enum }

func (o order) expect() string {
	return o.words.expect() + ", or the path of a schedule's file, with a / or a . in it"
}

func (o order) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v := n.Value
	if n.Kind != yaml.ScalarNode || !slices.Contains(o.words, v) && !isText(v) && !isPath(v) {
		near := o.words.expectNear(v)
		d.mismatch(n, path, near+"; or give the path of a schedule's file, with a / or a . in it")
		return
	}
	if isPath(v) && !isText(v) {
		v = d.path(n, path, v)
	}
	text, err := orderText(v)
	if err != nil {
		d.fail(d.pos(n), path, "%v", err)
		return
	}
	*dst.(*string) = text
}

func (order) encode(src any, _ func(*key) bool) *yaml.Node {
	v := *src.(*string)
	if !isText(v) {
		return plain(v)
	}
	n := str(v)
	n.Style = yaml.LiteralStyle
	return n
}

// isText tells the text of a schedule from a name and from a path.
func isText(v string) bool { return strings.Contains(v, "\n") }

// isPath tells a path from a name.
func isPath(v string) bool { return strings.ContainsAny(v, `/\.`) }

// maxOrder is the size in bytes beyond which no file is a schedule.
const maxOrder = 1 << 18

// orderText is a valid schedule's text, given a path from the working folder; of a name
// or a text, that itself.
func orderText(v string) (string, error) {
	if !isText(v) && !isPath(v) {
		return v, nil
	}
	text, name := v, ""
	if !isText(v) {
		name = v
		data, err := osfile.Read(name, maxOrder+1)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("there is no file %s; give the path of a schedule's file: in a config it starts from the config's folder", name)
		case err != nil:
			return "", err
		case len(data) > maxOrder:
			return "", fmt.Errorf("%s has more than %s, the limit for a schedule; is it the right file?", name, units.Bytes(maxOrder))
		}
		text, name = string(data), name+": "
	}
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n") + "\n"
	if _, err := schedule.Read(text); err != nil {
		return "", fmt.Errorf("%s%w", name, err)
	}
	return text, nil
}

// Order is the schedule that Schedule has the text of, or the path from the working
// directory; nil if it is a name.
func (p Partition) Order() (*schedule.Schedule, error) {
	text, err := orderText(p.Schedule)
	if err != nil || !isText(text) {
		return nil, err
	}
	s, err := schedule.Read(text)
	return &s, err
}
