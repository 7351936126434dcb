package bench

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/partition"
)

var _ = configs.Config{}
var _ = berth.ErrClosed
var _ = context.Background

func traceOf(t *testing.T, g *graph.Graph, m int, count int) *paging.Trace {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer devs[0].Close()
	plan, err := partition.New(g, partition.PlanOptions{Devices: []device.Spec{devs[0].Spec()}, Microbatches: m, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	tr := &paging.Trace{}
	ids := map[string]int{}
	obj := func(v *graph.Value, k int) int {
		name := v.Name
		if plan.PerMicrobatch(v) && v.Kind != graph.Variable {
			name = fmt.Sprintf("%s#%d", name, k)
		}
		i, ok := ids[name]
		if !ok {
			i = len(tr.Objects)
			ids[name] = i
			fed := v.Kind == graph.Input && !v.PerMicrobatch
			tr.Objects = append(tr.Objects, paging.Object{Name: name, Bytes: v.Meta.Bytes(), Lasting: v.Kind == graph.Variable || v.PerMicrobatch, Fed: fed})
		}
		return i
	}
	mem := map[[2]any]int64{}
	add := func(seg *partition.Segment, k int) {
		v := &seg.First
		later := k > 0 && seg.Phase != graph.Update
		if later {
			v = &seg.Later
		}
		key := [2]any{seg.ID, later}
		if _, ok := mem[key]; !ok {
			x, err := devs[0].Compile(v.Graph, device.CompileOptions{Alias: v.Alias})
			if err != nil {
				t.Fatal(err)
			}
			mem[key] = x.Memory().Temporary
		}
		l := paging.Launch{Scratch: mem[key]}
		need := func(s partition.Slot) {
			o := obj(s.Value, k)
			i := slices.IndexFunc(l.Uses, func(u paging.Use) bool { return u.Object == o })
			if i < 0 {
				i = len(l.Uses)
				l.Uses = append(l.Uses, paging.Use{Object: o})
			}
			l.Uses[i].Read = l.Uses[i].Read || s.Mode != partition.Write
			l.Uses[i].Write = l.Uses[i].Write || s.Mode != partition.Read
		}
		for _, s := range v.In {
			need(s)
		}
		for _, s := range v.Out {
			need(s)
		}
		for _, f := range seg.Frees {
			l.Frees = append(l.Frees, obj(f, k))
		}
		for _, f := range seg.Unread {
			l.Frees = append(l.Frees, obj(f, k))
		}
		tr.Launches = append(tr.Launches, l)
	}
	for k := range m {
		for i := range plan.Segments {
			if plan.Segments[i].Phase != graph.Update {
				add(&plan.Segments[i], k)
			}
		}
	}
	for i := range plan.Segments {
		if plan.Segments[i].Phase == graph.Update {
			add(&plan.Segments[i], m-1)
		}
	}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	return tr
}

func write(t *testing.T, name string, tr *paging.Trace) {
	f, err := os.Create(filepath.Join("/tmp/traces", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	json.NewEncoder(z).Encode(tr)
	z.Close()
	f.Close()
	r := paging.Replay(tr, 0)
	uses := 0
	for _, l := range tr.Launches {
		uses += len(l.Uses)
	}
	t.Logf("%s: %d objects %d launches %d uses, peak %d floor %d (%.2f)", name, len(tr.Objects), len(tr.Launches), uses, r.Peak, r.Floor, float64(r.Floor)/float64(r.Peak))
	for _, p := range []int64{50, 35, 25, 15} {
		r := paging.Replay(tr, r.Peak*p/100)
		if r.Fits {
			t.Logf("   %d%%: loaded %d spilled %d, x peak %.2f", p, r.Loaded, r.Spilled, float64(r.Moved())/float64(r.Peak))
		}
	}
}

func TestZZ(t *testing.T) {
	os.MkdirAll("/tmp/traces", 0o755)
	for _, name := range []string{"cnn", "gpt-nano", "gpt-small"} {
		w, _ := Lookup(name)
		for _, m := range []int{1, 4} {
			for _, count := range []int{1, 100} {
				s := models.Spec{Input: w.Input, Target: w.Target, Layers: w.Layers, Loss: "cross_entropy", Seed: seed}
				g, err := models.Train(s, adamW, models.Size{Microbatch: w.Batch / m, Microbatches: m, Batch: w.Batch, Ring: ring})
				if err != nil {
					t.Fatal(err)
				}
				write(t, fmt.Sprintf("%s-%d-%d", name, m, count), traceOf(t, g, m, count))
			}
		}
	}
	for _, name := range []string{"shakespeare", "digits-cnn"} {
		for _, m := range []int{1, 4} {
			for _, count := range []int{1, 100} {
				c, err := configs.Load(name, configs.Overlay{Set: []string{fmt.Sprintf("train.microbatches=%d", m)}})
				if err != nil {
					t.Fatal(err)
				}
				run, err := berth.Open(context.Background(), c)
				if err != nil {
					t.Fatal(err)
				}
				g := run.Plan.Graph
				write(t, fmt.Sprintf("%s-%d-%d", name, m, count), traceOf(t, g, m, count))
				run.Close()
			}
		}
	}
}
