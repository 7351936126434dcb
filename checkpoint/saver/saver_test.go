package saver_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/internal/smallrun"
)

// told is what a saver told.
type told struct {
	saved []saver.Saved
	notes []string
}

// open makes a saver of a run, into a new file.
func open(t *testing.T, r *smallrun.Run, bound saver.Bound, keep int) (*saver.Saver, *checkpoint.DB, *told) {
	t.Helper()
	db, err := checkpoint.Open(filepath.Join(t.TempDir(), "x.db"), checkpoint.OpenOptions{TxBytes: int(bound.TxBytes()), ChunkBytes: bound.ChunkBytes()})
	if err != nil {
		t.Fatal(err)
	}
	x := &told{}
	s := saver.New(r.Runtime.Residency, r.Plan.Graph, r.Program.Var, saver.NewOptions{
		DB: db, Bound: bound, Keep: checkpoint.Keep{Last: keep},
		Saved:   func(one saver.Saved) { x.saved = append(x.saved, one) },
		Damaged: func([]checkpoint.Skipped) {},
		Note:    func(text string) { x.notes = append(x.notes, text) },
	})
	t.Cleanup(func() {
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, db, x
}

// A checkpoint has the variables as they were when Save was called, however
// they are staged and whatever steps run meanwhile.
func TestSaveIsOfItsMoment(t *testing.T) {
	for _, bound := range []saver.Bound{0, 1 << 20} {
		r := smallrun.New(t, "cpu")
		s, db, x := open(t, r, bound, 9)
		if err := s.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		want, err := boundary.Salvage(t.Context(), r.Runtime, r.Program)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Save(t.Context(), t.Context(), checkpoint.Manifest{Step: 1}); err != nil {
			t.Fatal(err)
		}
		if s.Busy() && bound > 0 {
			t.Error("a bounded save does not wait")
		}
		if err := feed.Each(t.Context(), r.Devices[0], r.Program, r.Data.Train, func(datasets.Batch) error { return s.Poll() }); err != nil {
			t.Fatal(err)
		}
		if err := s.Await(); err != nil {
			t.Fatal(err)
		}
		snap, _, err := db.Latest(t.Context())
		if err != nil || len(x.saved) != 1 || x.saved[0].ID != snap.Manifest.ID || x.saved[0].Step != 1 {
			t.Fatalf("told %+v, %v", x.saved, err)
		}
		for _, v := range r.Plan.Graph.Vars {
			got := make([]byte, v.Meta.Bytes())
			if err := snap.Read(v.Name, 0, got); err != nil || !bytes.Equal(got, want[v.Name]) {
				t.Errorf("bound %d: %s is not what it was, %v", bound, v.Name, err)
			}
		}
		if st := s.Stats(); st.Count != 1 || st.Time <= 0 || st.Longest != st.Time || st.Copy > st.Time {
			t.Errorf("%+v", st)
		}
	}
}

// Between two saves the memory that they are staged in can be given back, and a closed saver has none.
func TestFree(t *testing.T) {
	r := smallrun.New(t, "cpu")
	s, db, _ := open(t, r, 0, 9)
	before := r.Runtime.Residency.HostMemory().Used
	for step := range 2 {
		if err := s.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Save(t.Context(), t.Context(), checkpoint.Manifest{Step: step}), s.Await()); err != nil {
			t.Fatal(err)
		}
		saves := r.Runtime.Residency.HostMemory().Used
		s.Free()
		if used := r.Runtime.Residency.HostMemory().Used; used != before || saves <= before {
			t.Errorf("%d bytes before the saves, %d with one and %d after it", before, saves, used)
		}
	}
	if list, _, err := db.List(); err != nil || len(list) != 2 {
		t.Errorf("%d checkpoints, %v", len(list), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s.Free()
}

// Old checkpoints are deleted as far as they are not to be kept.
func TestSaveKeeps(t *testing.T) {
	r := smallrun.New(t, "cpu")
	s, db, x := open(t, r, 0, 2)
	for step := range 4 {
		if err := s.Save(t.Context(), t.Context(), checkpoint.Manifest{Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Await(); err != nil {
		t.Fatal(err)
	}
	list, _, err := db.List()
	if err != nil || len(list) != 2 || list[1].Step != 3 || len(x.saved) != 4 {
		t.Errorf("%d checkpoints, told of %d, %v", len(list), len(x.saved), err)
	}
}

// Parameters that are not finite are not saved, which the error locates.
func TestSaveRefusesWhatIsNotFinite(t *testing.T) {
	for _, bound := range []saver.Bound{0, 1 << 20} {
		r := smallrun.New(t, "cpu")
		s, db, x := open(t, r, bound, 2)
		name := ""
		err := r.Program.Init(t.Context(), func(v *graph.Value, dst []byte) error {
			if name == "" && v.Role == graph.Parameter && len(dst) >= 8 {
				name = v.Name
				binary.LittleEndian.PutUint32(dst[4:], math.Float32bits(float32(math.Inf(1))))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Save(t.Context(), t.Context(), checkpoint.Manifest{Step: 5})
		if err == nil {
			err = s.Await()
		}
		if !errors.Is(err, device.ErrNonFinite) || !strings.Contains(err.Error(), "checkpoint at step 5: ") || !strings.Contains(err.Error(), name+"[1] is +Inf") {
			t.Errorf("bound %d: %v", bound, err)
		}
		if list, _, err := db.List(); err != nil || len(list)+len(x.saved) > 0 {
			t.Errorf("bound %d: %d checkpoints, %v", bound, len(list), err)
		}
	}
}

// A rescued checkpoint has the variables, is told of, and replaces the oldest one that
// is not to be kept. One that would not be finite is not written.
func TestRescue(t *testing.T) {
	r := smallrun.New(t, "cpu")
	s, db, x := open(t, r, 0, 1)
	want, err := boundary.Salvage(t.Context(), r.Runtime, r.Program)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 2 {
		if err := s.Rescue(t.Context(), checkpoint.Manifest{Step: step + 1}); err != nil {
			t.Fatal(err)
		}
	}
	snap, _, err := db.Latest(t.Context())
	if err != nil || snap.Manifest.Step != 2 {
		t.Fatalf("%+v, %v", snap.Manifest, err)
	}
	if len(x.saved) != 2 || x.saved[1].Step != 2 || x.saved[1].ID != snap.Manifest.ID || s.Stats().Count != 2 {
		t.Errorf("told of %+v, %+v", x.saved, s.Stats())
	}
	for _, v := range r.Plan.Graph.Vars {
		got := make([]byte, v.Meta.Bytes())
		if err := snap.Read(v.Name, 0, got); err != nil || !bytes.Equal(got, want[v.Name]) {
			t.Errorf("%s is not what it was, %v", v.Name, err)
		}
	}
	err = r.Program.Init(t.Context(), func(v *graph.Value, dst []byte) error {
		if v.Role == graph.Parameter {
			binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(math.NaN())))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Rescue(t.Context(), checkpoint.Manifest{Step: 3}); !errors.Is(err, device.ErrNonFinite) {
		t.Error(err)
	}
	if list, _, err := db.List(); err != nil || len(list) != 1 || list[0].Step != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// store has a run's first values.
type store struct {
	r     *smallrun.Run
	reads int
}

func (s *store) Read(name string, dst []byte) error {
	s.reads++
	for _, v := range s.r.Plan.Graph.Vars {
		if v.Name == name {
			return s.r.First(v, dst)
		}
	}
	return errors.New("no " + name)
}

// Variables that stream from a store are not staged with the others: they are read
// one after the other while they are saved.
func TestSaveStreams(t *testing.T) {
	r := smallrun.New(t, "cpu")
	s, db, _ := open(t, r, 0, 9)
	m, from := r.Runtime.Residency, &store{r: r}
	var bytes, largest int64
	for _, v := range r.Plan.Graph.Vars {
		if v.Role != graph.Parameter {
			continue
		}
		if err := m.FromStore(r.Program.Var(v.Name), from, v.Name); err != nil {
			t.Fatal(err)
		}
		bytes += v.Meta.Bytes()
		largest = max(largest, v.Meta.Bytes())
	}
	for step := range 2 {
		if err := s.Save(t.Context(), t.Context(), checkpoint.Manifest{Step: step}); err != nil {
			t.Fatal(err)
		}
		if err := s.Await(); err != nil {
			t.Fatal(err)
		}
		if used := m.HostMemory().Used; used >= largest || from.reads != 4*(step+1) {
			t.Errorf("after save %d the host has %d bytes of %d that stream, read %d times", step, used, bytes, from.reads)
		}
	}
	snap, _, err := db.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Plan.Graph.Vars {
		if v.Role != graph.Parameter {
			continue
		}
		got, want := make([]byte, v.Meta.Bytes()), make([]byte, v.Meta.Bytes())
		if err := errors.Join(snap.Read(v.Name, 0, got), r.First(v, want)); err != nil || string(got) != string(want) {
			t.Errorf("%s was saved with other contents, %v", v.Name, err)
		}
	}
}

// A rescue fails if the checkpoint file is gone: nobody would find what it wrote.
func TestRescueIntoAFileThatIsGone(t *testing.T) {
	s, db, x := open(t, smallrun.New(t, "cpu"), 0, 1)
	if err := os.Remove(db.Path()); err != nil {
		t.Fatal(err)
	}
	if err := s.Rescue(t.Context(), checkpoint.Manifest{Step: 1}); !errors.Is(err, checkpoint.ErrMoved) || len(x.saved) > 0 {
		t.Errorf("%v, %+v", err, x.saved)
	}
}
