package session

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// Notes say how a training's plan is other than its user may expect.
func (s *Session) Notes() (list []string) {
	if text := s.Sizes.OneStep(); text != "" {
		list = append(list, text)
	}
	list = append(list, s.Config.Notes...)
	list = append(list, s.notes...)
	list = append(list, s.unjudged()...)
	list = append(list, s.MemoryNotes()...)
	list = append(list, s.Times.Notes()...)
	list = append(list, s.Planner.Notes(s.Choice)...)
	for _, text := range []string{s.seesTarget(), s.nothingBeside()} {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// nothingBeside says that nothing is compiled while steps run where every op runs by itself.
func (s *Session) nothingBeside() string {
	if d := s.Config.Devices; d.Compile != configs.CompileBeside || !d.IsOpByOp() {
		return ""
	}
	return "devices.compile: beside changes nothing, since devices.op_by_op runs every op by itself"
}

// MemoryNotes say what percentages of memory became, and where there is less
// memory than the plan would take.
func (s *Session) MemoryNotes() []string {
	list := slices.Concat(s.limits, s.Plan.Shortages())
	if by := s.Config.UnlimitedBy; by != (configs.Pos{}) {
		list = append(list, fmt.Sprintf("%s: the limits of memory of the devices in devices.each do not hold for these; --device-memory gives new ones", by))
	}
	if text := s.hostNote(); text != "" {
		list = append(list, text)
	}
	for i := range s.Plan.Memory {
		f := &s.Plan.Memory[i]
		if d := s.Devices[f.Device]; f.Tight() && device.EvictorOf(d) != nil {
			list = append(list, fmt.Sprintf("%s chooses itself what leaves it: the bytes that move are predicted as if the tensors left that are not needed for longest", d.ID()))
		}
	}
	return list
}

// seesTarget is a note that a model of the next tokens sees them; "" if it does not.
func (s *Session) seesTarget() string {
	l := s.Spec.Layers.BothEnds()
	if l == nil || !s.trains || s.Info.Tokenizer == nil || s.Info.Target.Meta.Shape.Rank() == 0 {
		return ""
	}
	where := configs.Pos{File: l.Pos.File, Line: l.Pos.Line}
	return fmt.Sprintf("%s: the %s layer %q reads from both ends (bidirectional), so it sees the tokens that the model is to predict, and the loss says nothing about other texts: leave bidirectional out", where, l.Type(), l.Name)
}
