package berth

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// notes say how the plan is other than its user may expect.
func (s *setup) notes() (list []string) {
	if text := s.sizes.oneStep(); text != "" {
		list = append(list, text)
	}
	list = append(list, s.config.Notes...)
	list = append(list, s.dataNotes...)
	list = append(list, s.unjudged()...)
	list = append(list, s.memoryNotes()...)
	list = append(list, s.costs.notes...)
	if f := s.plan.Fewer; f != nil {
		list = append(list, f.Note())
	}
	list = append(list, s.gaveWay()...)
	for _, text := range []string{s.shardNote(), s.idle(), s.seesTarget(), s.nothingBeside()} {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// nothingBeside says that nothing is compiled beside steps where every op runs by itself.
func (s *setup) nothingBeside() string {
	if d := s.config.Devices; d.Compile != configs.CompileBeside || !runsOpByOp(d) {
		return ""
	}
	return "devices.compile: beside changes nothing, since devices.op_by_op runs every op by itself"
}

// memoryNotes say what percentages of memory became, and where there is less
// memory than the plan would take.
func (s *setup) memoryNotes() []string {
	list := slices.Concat(s.limits, s.plan.Shortages())
	if by := s.config.UnlimitedBy; by != (configs.Pos{}) {
		list = append(list, fmt.Sprintf("%s: the limits of memory of the devices in devices.each do not hold for these; --device-memory gives new ones", by))
	}
	if text := s.hostNote(); text != "" {
		list = append(list, text)
	}
	for i := range s.plan.Memory {
		f := &s.plan.Memory[i]
		if f.Device >= len(s.devs) { // they are closed
			break
		}
		if d := s.devs[f.Device]; f.Tight() && device.EvictorOf(d) != nil {
			list = append(list, fmt.Sprintf("%s chooses itself what leaves it: the bytes that move are predicted as if the tensors left that are not needed for longest", d.ID()))
		}
	}
	return list
}

// seesTarget is a note that a model of the next tokens sees them; "" if it does not.
func (s *setup) seesTarget() string {
	l := s.spec.Layers.BothEnds()
	if l == nil || !s.trains || s.info.Tokenizer == nil || s.info.Target.Meta.Shape.Rank() == 0 {
		return ""
	}
	where := configs.Pos{File: l.Pos.File, Line: l.Pos.Line}
	return fmt.Sprintf("%s: the %s layer %q reads from both ends (bidirectional), so it sees the tokens that the model is to predict, and the loss says nothing about other texts: leave bidirectional out", where, l.Type(), l.Name)
}
