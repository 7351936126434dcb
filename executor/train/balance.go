package train

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/units"
)

// BalanceReport is how replicas shared the microbatches of this call's steps, or stages the blocks, where that changed, or
// would have.
type BalanceReport struct {
	Planned []int           `json:"planned,omitempty"` // microbatches of a full step, by replica
	Shares  []int           `json:"shares,omitempty"`  // the same in the newest steps
	Changes int             `json:"changes"`
	Newest  []BalanceMove   `json:"newest,omitempty"` // of the changes, and of those for which there was no memory, the newest 32
	Blocks  []BalanceBlocks `json:"blocks,omitempty"` // of stages: the newest 32 changes
}

// BalanceMove is a change of the shares.
type BalanceMove struct {
	Step   int       `json:"step"`              // the first one with them
	Shares []int     `json:"shares"`            // microbatches of a full step, by replica
	MS     []float64 `json:"ms_per_microbatch"` // by replica, as measured before
	Full   []int     `json:"full,omitempty"`    // replicas whose devices have no memory for more
}

// balanceReport reports the moves of a call that began after so many steps; nil without any.
func (a *attempt) balanceReport(first int) *BalanceReport {
	if n := a.restaged.count; n > 0 {
		return &BalanceReport{Changes: n, Blocks: a.restaged.newest}
	}
	moves, _ := a.prog.Moves()
	if moves.Count == 0 {
		return nil
	}
	r := &BalanceReport{Planned: moves.First, Shares: moves.Now, Changes: moves.Others}
	for _, m := range moves.Newest {
		x := BalanceMove{Step: first + int(m.Ticket), Shares: m.To}
		for replica, s := range m.Seconds {
			x.MS = append(x.MS, s*1e3)
			if m.Full[replica] {
				x.Full = append(x.Full, replica)
			}
		}
		r.Newest = append(r.Newest, x)
	}
	return r
}

// toldMoves is what the observer knows of the replicas' shares. The loop owns it.
type toldMoves struct {
	count  int   // of moves
	shares []int // nil: those of the plan
	failed bool
}

// tellMoves tells of the newest move of the replicas' shares, if there were any since it last told.
func (l *loop) tellMoves() {
	moves, err := l.a.prog.Moves()
	if told := &l.told; moves.Count > told.count {
		before := told.shares
		if before == nil {
			before = moves.First
		}
		if m := &moves.Newest[len(moves.Newest)-1]; !m.Changes() || !slices.Equal(m.To, before) { // or it was undone meanwhile
			l.a.opt.Observer.note(moveText(m, before, l.first))
		}
		told.count, told.shares = moves.Count, moves.Now
	}
	if err != nil && !l.told.failed {
		l.told.failed = true
		l.a.opt.Observer.warn(fmt.Sprintf("replicas keep their shares of microbatches from here on: %v", err))
	}
}

// moveText words a move from shares that were told before, in a call that began after so many steps.
func moveText(m *executor.Move, before []int, first int) string {
	var times, full []string
	for replica, s := range m.Seconds {
		times = append(times, units.Milliseconds(s*1e3))
		if m.Full[replica] {
			full = append(full, fmt.Sprint(replica))
		}
	}
	text := fmt.Sprintf("replicas keep %s microbatches of a step", numbers(m.To))
	if m.Changes() {
		text = fmt.Sprintf("from step %d on, replicas take %s microbatches of a step in place of %s",
			first+int(m.Ticket), numbers(m.To), numbers(before))
	}
	text += ": each microbatch took them " + units.List(times)
	if len(full) > 0 {
		text += "; no memory for more on replica " + units.List(full)
	}
	return text
}

// numbers joins numbers: "15 and 1", or "5, 2 and 1".
func numbers(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, fmt.Sprint(n))
	}
	return units.List(texts)
}
