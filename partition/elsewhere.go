package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/cut"
)

// Elsewhere says, a line for each, which blocks and nodes are not where they would be
// otherwise, since a device does not run them.
func (p *Plan) Elsewhere() (lines []string) {
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range p.cut.Refused {
		add(line)
	}
	for _, m := range p.place.Moved {
		on := func(group int) device.ID { return p.options.Devices[p.cut.Device[group]].ID }
		add(fmt.Sprintf("%s is on %s, since %s does not run it: %s", m.Node.Op.Kind(), on(m.To), on(m.From), cut.WhyNot(m.Why)))
	}
	return lines
}

// movedHere says which nodes a stage has because another device does not run them.
func (p *Plan) movedHere(stage int) string {
	var list []string
	for _, m := range p.place.Moved {
		what := fmt.Sprintf("has %s, which %s does not run", m.Node.Op.Kind(), p.options.Devices[p.cut.Device[m.From]].ID)
		if m.To == stage && !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	if list == nil {
		return ""
	}
	return "; " + strings.Join(list, "; ")
}
