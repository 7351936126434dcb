package step_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// drawRanks gives each device of a setup a rank. Each rank from 0 on has one.
func drawRanks(t *rapid.T, devices int) []int {
	of := make([]int, devices)
	for d := range of {
		of[d] = rapid.IntRange(0, min(d, slices.Max(append(of[:d:d], -1))+1)).Draw(t, "rank")
	}
	return of
}

// play is a run of steps over ranks, which notes versions in place of contents.
type play struct {
	newest   int
	versions []map[step.ID]int // by rank: of what it has
	truth    map[step.ID]int
	holders  step.Holders
	sent     [][]int64 // in the last step
}

// step runs the launches of a step, and fails where one reads other contents than the newest.
func (p *play) step(t passes.T, launches []step.Launch, of []int, x *step.Exchange) {
	t.Helper()
	ranks := len(p.versions)
	p.sent = make([][]int64, ranks)
	drops := make([][][]step.Instance, ranks)
	for r := range ranks {
		p.sent[r] = make([]int64, ranks)
		drops[r] = x.Drops(r)
	}
	senders, next := x.Senders(p.holders, nil), 0
	for i := range launches {
		l := &launches[i]
		rank := of[l.Device]
		for ; next < len(x.Messages) && x.Messages[next].Before == i; next++ {
			m, from := &x.Messages[next], senders[next]
			if from < 0 {
				continue
			}
			id, to := m.ID(), of[m.To]
			if from == to || to != rank || p.versions[from][id] != p.truth[id] || p.versions[to][id] == p.truth[id] {
				t.Fatal(l.Name(), "gets", m.Value.Name, "from rank", from, "on rank", to, ": versions", p.versions[from][id], p.versions[to][id], p.truth[id])
			}
			p.versions[to][id] = p.truth[id]
			p.sent[from][to] += m.Value.Meta.Bytes()
		}
		for _, n := range l.Needs {
			id := n.ID()
			if n.Value.Kind == graph.Input || n.Value.PerMicrobatch {
				p.versions[rank][id] = p.truth[id] // fed
			}
			if n.Mode != segment.Write && p.versions[rank][id] != p.truth[id] {
				t.Fatal(l.Name(), "of rank", rank, "reads version", p.versions[rank][id], "of", n.Value.Name, ", the newest is", p.truth[id])
			}
			if n.Mode != segment.Read {
				if !l.Repeats() {
					p.newest++
					p.truth[id] = p.newest
				}
				p.versions[rank][id] = p.truth[id]
			}
		}
		for r := range ranks {
			for _, in := range drops[r][i] {
				if _, has := p.versions[r][in.ID()]; !has && in.Value.Kind != graph.Variable {
					t.Fatal("rank", r, "drops", in.Value.Name, "after", l.Name(), ", and has none")
				}
				delete(p.versions[r], in.ID())
			}
		}
	}
	if next != len(x.Messages) {
		t.Fatal(len(x.Messages)-next, "messages are before no launch")
	}
	for i := range launches {
		for _, n := range launches[i].Needs {
			for r := range ranks {
				if _, has := p.versions[r][n.ID()]; has && n.Value.Kind != graph.Variable && !n.Value.PerMicrobatch {
					t.Fatal("rank", r, "never drops", n.Value.Name)
				}
			}
		}
	}
}

// TestRanksReadTheNewest gives the devices of random steps to random ranks. Each launch reads
// the newest contents, each message brings what its rank has not, and a step among others
// sends the bytes that are foretold.
func TestRanksReadTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		of := drawRanks(t, s.Count())
		if rapid.Bool().Draw(t, "planned for ranks") {
			p.Ranks = of
		}
		ranks := slices.Max(of) + 1
		run := &play{truth: map[step.ID]int{}, holders: step.Holders{}}
		for range ranks {
			run.versions = append(run.versions, map[step.ID]int{})
		}
		sizes := []int{n.Microbatches, rapid.IntRange(1, n.Microbatches).Draw(t, "last")}
		exchanges, launches := make([]*step.Exchange, 2), make([][]step.Launch, 2)
		for i, m := range sizes {
			launches[i] = passes.Launches(t, p, step.Options{Microbatches: m})
			exchanges[i] = step.NewExchange(launches[i], of)
			for name, users := range exchanges[i].Users() {
				for _, r := range users {
					run.holders.Add(name, r)
				}
			}
		}
		if rapid.Bool().Draw(t, "contents come from the first rank") {
			for _, v := range p.Index.Graph.Vars {
				if ranks := run.holders[v.Name]; len(ranks) > 0 {
					id := p.Instance(v, 0, false).ID()
					run.newest++
					run.truth[id], run.versions[ranks[0]][id] = run.newest, run.newest
					run.holders[v.Name] = ranks[:1]
				}
			}
		}
		var before []int
		for range rapid.IntRange(2, 6).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "size")
			run.step(t, launches[i], of, exchanges[i])
			if before = append(before, i); len(before) > 1 && before[len(before)-2] == i {
				for from, want := range exchanges[i].Bytes() {
					if !slices.Equal(run.sent[from], want) {
						t.Fatal("rank", from, "sends", run.sent[from], ", foretold are", want)
					}
				}
			}
			for _, v := range p.Index.Graph.Vars {
				id := p.Instance(v, 0, false).ID()
				for r := range ranks {
					if run.holders.Has(v.Name, r) && run.truth[id] > 0 && run.versions[r][id] != run.truth[id] {
						t.Fatal("rank", r, "is to hold", v.Name, ", and has version", run.versions[r][id], "of", run.truth[id])
					}
				}
			}
		}
	})
}

// TestOneRankSendsNothing: neither does it drop anything but what is over.
func TestOneRankSendsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		launches := passes.Launches(t, s.Program(t, n), step.Options{Microbatches: n.Microbatches})
		x := step.NewExchange(launches, make([]int, s.Count()))
		if h := x.Users(); len(x.Senders(h, nil)) != len(x.Messages) || x.Bytes()[0][0] > 0 {
			t.Fatal("one rank sends", x.Bytes())
		}
		for i, list := range x.Drops(0) {
			for k, in := range list {
				if want := launches[i].Needs[launches[i].Over[len(launches[i].Over)-1-k]].Instance; in != want && len(list) == 1 {
					t.Fatal(launches[i].Name(), "drops", in, "and not", want)
				}
			}
			if len(list) != len(launches[i].Over) {
				t.Fatal(launches[i].Name(), "drops", list)
			}
		}
	})
}

// TestPartOfRank: the part of a rank has its launches as they are among all, with the messages that it sends or receives and
// what it drops, and the same holders of variables. Nothing else is in it but what says who has a variable.
func TestPartOfRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		of := drawRanks(t, s.Count())
		if rapid.Bool().Draw(t, "planned for ranks") {
			p.Ranks = of
		}
		o := step.Options{Microbatches: rapid.IntRange(1, n.Microbatches).Draw(t, "microbatches"), Fetch: rapid.Bool().Draw(t, "fetch")}
		all := passes.Launches(t, p, o)
		whole := step.NewExchange(all, of)
		for rank := range slices.Max(of) + 1 {
			o.Of, o.Rank = of, rank
			part := passes.Launches(t, p, o)
			x := step.NewExchange(part, of)
			if got, want := seenBy(rank, of, part, x), seenBy(rank, of, all, whole); !slices.Equal(got, want) {
				t.Fatalf("rank %d:\n%s\n\nof all:\n%s", rank, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if a, b := x.Users(), whole.Users(); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatal("users", a, "of all", b)
			}
			for _, v := range p.Index.Graph.Outputs {
				if id := p.Instance(v, o.Microbatches-1, false).ID(); o.Fetch && x.Writer(id) != whole.Writer(id) {
					t.Fatal(v.Name, "is on device", x.Writer(id), "of all", whole.Writer(id))
				}
			}
			h, all := x.Users(), whole.Users()
			x.Senders(h, nil)
			if whole.Senders(all, nil); fmt.Sprint(h) != fmt.Sprint(all) {
				t.Fatal("holders", h, "of all", all)
			}
		}
	})
}

// seenBy lists what a rank does in a step: launches, messages and drops.
func seenBy(rank int, of []int, launches []step.Launch, x *step.Exchange) (list []string) {
	h := x.Users()
	x.Senders(h, nil)
	senders, drops, next := x.Senders(h, nil), x.Drops(rank), 0
	for i := range launches {
		l := &launches[i]
		for ; next < len(x.Messages) && x.Messages[next].Before == i; next++ {
			if m := &x.Messages[next]; senders[next] == rank || senders[next] >= 0 && of[m.To] == rank {
				list = append(list, fmt.Sprint("message ", m.Value.Name, m.Microbatch, " from ", senders[next], " to ", m.To, " before ", l.Name(), l.Action()))
			}
		}
		if of[l.Device] == rank {
			list = append(list, fmt.Sprint("launch ", l.Name(), " on ", l.Device, " with ", len(l.Needs), l.In, l.Out, l.Over, l.Also))
		}
		var over []string
		for _, d := range drops[i] {
			over = append(over, fmt.Sprint("drop ", d.Value.Name, d.Microbatch, " after ", l.Name()))
		}
		slices.Sort(over)
		list = append(list, over...)
	}
	return list
}
