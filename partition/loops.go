package partition

import "fmt"

// Loops says, for each layer with loops, in which stage they are. Stages are cut between
// top-level layers, so a loop is never divided among stages.
func (p *Plan) Loops() (list []string) {
	for _, s := range p.Stages {
		for _, l := range s.Layers {
			if l.Iterations > 0 {
				list = append(list, fmt.Sprintf("%s: %d iterations of its loops, all in stage %d", l.Name, l.Iterations, s.Index))
			}
		}
	}
	return list
}
