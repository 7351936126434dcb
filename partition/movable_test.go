package partition

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
)

// movable are the options of a plan whose blocks can move.
func movable() PlanOptions {
	o := PlanOptions{Devices: nets.Specs(2, 0)}
	for d := range o.Devices {
		o.Devices[d].PeerCopy = true
	}
	return o
}

// A plan for a slow device gives it fewer blocks, and says which variables move, and how long its steps take.
func TestSlowDevices(t *testing.T) {
	g, o := nets.Chain(6, 64, 8, 4), movable()
	p := mustPlan(t, g, o)
	if !p.Movable() {
		t.Fatal("its blocks cannot move")
	}
	usual := p.PassSeconds()
	o.Slow = []float64{1, 9}
	q := mustPlan(t, g, o)
	if was, is := len(p.Stages[1].Blocks), len(q.Stages[1].Blocks); was != 3 || is >= was && q.Stages[1].Device == 1 {
		t.Fatalf("of six blocks, the second of two devices has %d, and where it is slow %d", was, is)
	}
	variables, bytes, ok := p.Moved(q)
	if !ok || variables == 0 || bytes <= 0 {
		t.Errorf("%d variables and %d bytes move: %v", variables, bytes, ok)
	}
	if variables, bytes, ok := p.Moved(p); variables != 0 || bytes != 0 || !ok {
		t.Errorf("to the same plan, %d variables and %d bytes move: %v", variables, bytes, ok)
	}
	if _, _, ok := p.Moved(mustPlan(t, nets.Chain(5, 64, 8, 4), movable())); ok {
		t.Error("a run can go over to a plan of another model")
	}
	slowed := p.Slowed(o.Slow)
	if s := slowed.PassSeconds(); s[0] != usual[0] || s[1] <= usual[1] || s[1] > 9*usual[1] {
		t.Errorf("passes take %v, and on a slow device %v", usual, s)
	}
	seconds := func(p *Plan) float64 {
		x, err := p.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		return x.Seconds
	}
	if was, now, is := seconds(p), seconds(slowed), seconds(q); !(was < is && is < now) || math.IsNaN(now) {
		t.Errorf("a step takes %v, on a slow device %v, and with other blocks %v", was, now, is)
	}
}

// Two devices that exchange blocks need room for one of them beside the others.
func TestRoomToMove(t *testing.T) {
	g := nets.Chain(6, 64, 8, 4)
	plan := func(first, second int, limit int64) *Plan {
		o := movable()
		o.Stages, o.Count = [][]string{{"b0", "b1", "b2"}, {"b3", "b4", "b5"}}, 0
		o.On = []int{first, second}
		p := mustPlan(t, g, o)
		for d := range p.options.Devices {
			p.options.Devices[d].MemoryBytes = limit
		}
		return p
	}
	var one, all int64
	usual := plan(0, 1, 0)
	for _, v := range usual.Graph.Vars {
		one = max(one, v.Meta.Bytes())
		if usual.variables()[v.Name][0] {
			all += v.Meta.Bytes()
		}
	}
	for limit, want := range map[int64]bool{0: true, all - 1: false, all: false, all + one: true} {
		if got := plan(0, 1, limit).HasRoomToMove(plan(1, 0, limit)); got != want {
			t.Errorf("with %d bytes of memory, and variables of %d: %v", limit, all, got)
		}
	}
}

// Blocks stay where they would have other bits, would pass through the host, and where somebody else decides.
func TestNotMovable(t *testing.T) {
	order, err := schedule.New(schedule.Spec{Name: "1f1b", Stages: 2, Microbatches: 4})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *PlanOptions){
		"replicas":      func(o *PlanOptions) { o.Replicas, o.Reduction = 2, ReduceTree },
		"one device":    func(o *PlanOptions) { o.Devices = o.Devices[:1] },
		"one stage":     func(o *PlanOptions) { o.Count = 1 },
		"ranks":         func(o *PlanOptions) { o.Ranks = []int{0, 1} },
		"a file":        func(o *PlanOptions) { o.Order = &order },
		"other kernels": func(o *PlanOptions) { o.Devices[1].Numerics = "avx2" },
		"no path":       func(o *PlanOptions) { o.Devices[0].PeerCopy = false },
		"nothing":       func(*PlanOptions) {},
	} {
		o := movable()
		o.Devices = slices.Clone(o.Devices)
		change(&o)
		if got := mustPlan(t, nets.Chain(3, 4, 2, 4), o).Movable(); got != (name == "nothing") {
			t.Errorf("%s: blocks can move: %v", name, got)
		}
	}
}

func TestSlownessOfEachDevice(t *testing.T) {
	o := movable()
	o.Slow = []float64{1}
	g, err := nets.Chain(3, 4, 2, 4).Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(g, o); !errors.Is(err, ErrStages) {
		t.Error("the slowness of one device of two is enough")
	}
}
