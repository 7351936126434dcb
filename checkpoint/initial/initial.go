package initial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Contents fills all of dst, whatever it holds, with a variable's bytes; those of a
// range with its part of the whole variable's.
type Contents func(v *graph.Value, dst []byte) error

// FromSnapshot reads a checkpoint. Every variable of the graph must be in it
// with the same shape, except metrics, which then begin with zeros: an epoch's
// losses are of no use to a run whose epochs are different. A checkpoint of step 0
// may have the parameters alone: the optimizer's state then begins by rule, and averages with the parameters.
// Parameters that are not finite are refused with safetensors.ErrFinite.
//
// Parameters that the graph stores in bfloat16 or int8 are float32 in the checkpoint, and are
// rounded as models.Narrowed says.
//
// base has the weights that an adapter was trained beside, which are in no checkpoint; nil for
// models without.
func FromSnapshot(s *checkpoint.Snapshot, base Contents) Contents {
	return func(v *graph.Value, dst []byte) error {
		whole := v.Whole()
		if base != nil && v.Tagged(graph.BaseTag) {
			return base(v, dst)
		}
		if text := misfit(s, v); text != "" {
			return fmt.Errorf("%w: %s", ErrChanged, text)
		}
		if v.Meta.DType.Stored() {
			return fromSnapshotNarrowed(s, v, dst)
		}
		have, ok := s.Tensor(whole.Name)
		switch {
		case ok && have.Meta.Equal(whole.Meta):
			if err := s.Read(whole.Name, v.Offset(), dst); err != nil {
				return err
			}
			return finite(s, v, dst)
		case v.Role == graph.Metric:
			clear(dst)
			return nil
		}
		if parameter := v.Averaged(); parameter != "" {
			return s.Read(parameter, v.Offset(), dst)
		}
		models.Fill(v, 0, dst)
		return nil
	}
}

// fromSnapshotNarrowed is FromSnapshot for a variable that the graph stores in bfloat16 or int8.
func fromSnapshotNarrowed(s *checkpoint.Snapshot, v *graph.Value, dst []byte) error {
	return narrowed(v, v.Name, dst, func(piece []float32, at int) error {
		if err := s.Read(v.Name, int64(at)*4, shape.Bytes(piece)); err != nil {
			return err
		}
		return finiteFrom(s, v.Name, piece, at)
	})
}

// inFloats is m as checkpoints have it: they keep what is stored in bfloat16 or int8 as float32.
func inFloats(m shape.Meta) shape.Meta {
	if m.DType.Stored() {
		m.DType = shape.Float32
	}
	return m
}

// Misfit says which variable FromSnapshot would refuse, without reading; "" if there is none.
func Misfit(s *checkpoint.Snapshot, vars []*graph.Value) string {
	for _, v := range vars {
		if text := misfit(s, v); text != "" {
			return text
		}
	}
	return ""
}

// misfit says why a checkpoint has no contents for a variable; "" where it has.
func misfit(s *checkpoint.Snapshot, v *graph.Value) string {
	whole := v.Whole()
	meta := inFloats(whole.Meta)
	have, ok := s.Tensor(whole.Name)
	switch {
	case v.Tagged(graph.BaseTag), ok && have.Meta.Equal(meta), v.Role == graph.Metric, !ok && s.Manifest.Step == 0 && begins(v):
		return ""
	case !ok && s.Manifest.Step == 0 && v.Averaged() != "":
		if of, ok := s.Tensor(v.Averaged()); ok && of.Meta.Equal(meta) {
			return ""
		}
	case ok:
		return fmt.Sprintf("in checkpoint %d, %s is %v, but in the model it is %v", s.Manifest.ID, whole.Name, have.Meta, meta)
	}
	return fmt.Sprintf("checkpoint %d has no tensor %s, which the model needs", s.Manifest.ID, whole.Name)
}

// finite refuses parameters of a checkpoint that are NaN or infinite, which no run saves.
func finite(s *checkpoint.Snapshot, v *graph.Value, b []byte) error {
	if v.Role != graph.Parameter || v.Meta.DType != shape.Float32 {
		return nil
	}
	return finiteFrom(s, v.Whole().Name, shape.View[float32](b), int(v.Offset()/4))
}

// finiteFrom is finite for the numbers of a tensor from one on.
func finiteFrom(s *checkpoint.Snapshot, name string, x []float32, at int) error {
	err := safetensors.Finite(x)
	if err == nil {
		return nil
	}
	m := &s.Manifest
	return fmt.Errorf("checkpoint %d of step %d: tensor %s: %w", m.ID, m.Step, name, safetensors.Later(err, at))
}

// begins reports whether a variable that no step has changed has the same contents
// for any seed.
func begins(v *graph.Value) bool {
	return v.Role != graph.Parameter && v.Role != graph.Statistic && v.Role != graph.Average && (v.Init.Kind == graph.Zeros || v.Init.Kind == graph.Constant)
}

// FromRun is FromSnapshot for a run that goes on in db from that checkpoint, s:
// later checkpoints may replace it. Variables that do not change are read from
// the newest one then.
func FromRun(db *checkpoint.DB, s *checkpoint.Snapshot, base Contents) Contents {
	var at atomic.Pointer[checkpoint.Snapshot]
	at.Store(s)
	return func(v *graph.Value, dst []byte) error {
		err := FromSnapshot(at.Load(), base)(v, dst)
		if !errors.Is(err, checkpoint.ErrDamaged) {
			return err
		}
		list, _, e := db.List()
		if e != nil || len(list) == 0 || list[len(list)-1].ID == at.Load().Manifest.ID {
			return err // it is still there, and damaged
		}
		newest, e := db.Load(list[len(list)-1].ID)
		if e != nil {
			return e
		}
		at.Store(newest)
		return FromSnapshot(newest, base)(v, dst)
	}
}

// Values are first contents by the layers' rules, and from a file of weights
// where there is one.
type Values struct {
	seed   uint64
	source Source
	inFile map[string]string // the names of weights there, by those of the model
	file   *safetensors.File // nil: there is none, or it is compressed
	stream *Stream           // nil: there is none, or it is plain
	fit    string            // see Fit
	stop   func() error      // see Until
	again  *again            // of a compressed file; nil: no average was read yet
}

// Open opens a [Source], plain or compressed, which must have every parameter among
// vars that it does not skip, in its shape, under its name after the prefix. With ""
// all contents are by rule. For an adapter, a file with more layers than the model is refused. ctx ends reading the list of the
// file's tensors. The caller closes the values.
func Open(ctx context.Context, init string, seed uint64, vars []*graph.Value) (*Values, error) {
	x, err := open(ctx, init, seed, vars, vars)
	if err != nil {
		return nil, err
	}
	if err := x.whole(vars); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// open is Open of some of the variables.
func open(ctx context.Context, init string, seed uint64, all, vars []*graph.Value) (*Values, error) {
	x := &Values{seed: seed}
	if init == "" {
		return x, nil
	}
	var err error
	if x.source, err = ParseSource(init); err != nil {
		return nil, err
	}
	if p := x.source.unmatched(all); p != "" {
		return nil, fmt.Errorf("%w: skip: %s is the name of no weight of the model, such as %s", ErrInit, p, anyWeight(all))
	}
	if x.source.File == "" { // another job will give it
		return x, nil
	}
	err = x.open(ctx, vars)
	switch {
	case err != nil && ctx.Err() != nil: // the file may well be good
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInit, err)
	}
	f := x.fitOf(vars)
	if err := f.err(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s does not fit the model: %w", ErrInit, x.source.File, err), x.Close())
	}
	x.fit = f.String()
	return x, nil
}

// anyWeight is the name of one.
func anyWeight(vars []*graph.Value) string {
	for _, v := range vars {
		if weight(v) {
			return v.Name
		}
	}
	return "none"
}

// open opens the file of weights, and finds the prefix.
func (x *Values) open(ctx context.Context, vars []*graph.Value) (err error) {
	path := x.source.File
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return folderError(path)
	}
	if !safetensors.Compressed(path) {
		if x.file, err = safetensors.Open(ctx, path); err == nil {
			x.nameTensors(vars)
		}
		return err
	}
	f, err := safetensors.OpenStream(ctx, path)
	if err == nil {
		x.stream = &Stream{file: f}
		x.nameTensors(vars)
		x.stream = newStream(f, x.source, x.inFile, vars)
	}
	return err
}

// folderError says which file to give in place of a folder.
func folderError(dir string) error {
	inside := func(name string) bool {
		st, err := os.Stat(filepath.Join(dir, name))
		return err == nil && st.Mode().IsRegular()
	}
	switch {
	case inside("checkpoints.db"):
		file := filepath.Clean(dir) + ".safetensors"
		return fmt.Errorf("%s is the folder of a run: write its model to a file (trainer export %s --out %s), and give that", dir, dir, file)
	case inside("model.safetensors"):
		return fmt.Errorf("%s is a folder: give the file %s", dir, filepath.Join(dir, "model.safetensors"))
	}
	return fmt.Errorf("%s is a folder: give a file of weights, as trainer export writes it", dir)
}

// nameTensors finds the prefix, unless one is given, and the weights in the file. Those without a name behind a prefix that was
// found may have one without it, as heads do in files of Hugging Face's models.
func (x *Values) nameTensors(vars []*graph.Value) {
	names, found := x.names(), x.source.Prefix == ""
	if found {
		x.source.Prefix = foundPrefix(names, vars)
	}
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	x.inFile = map[string]string{}
	for _, v := range vars {
		switch name := x.source.Prefix + v.Name; {
		case !weight(v):
		case known[name]:
			x.inFile[v.Name] = name
		case found && known[v.Name]:
			x.inFile[v.Name] = v.Name
		}
	}
}

// names lists the tensors of the file.
func (x *Values) names() (list []string) {
	tensors := []safetensors.Tensor(nil)
	if x.stream != nil {
		tensors = x.stream.file.Tensors()
	} else {
		tensors = x.file.Tensors()
	}
	for _, t := range tensors {
		list = append(list, t.Name)
	}
	return list
}

// Fit says in a line what of the file was taken; "" where it is all of it, under the
// model's own names.
func (x *Values) Fit() string { return x.fit }

// Shapes are the shapes of the parameters among vars, by name: what Open needs of a file.
func Shapes(vars []*graph.Value) map[string]string {
	shapes := map[string]string{}
	for _, v := range vars {
		if v.Role == graph.Parameter && weight(v) {
			shapes[v.Name] = fmt.Sprint(v.Meta.Shape)
		}
	}
	return shapes
}

// lookup finds a variable in the file by its name.
func (x *Values) lookup(name string) (safetensors.Tensor, bool) {
	if x.source.Skips(name) {
		return safetensors.Tensor{}, false
	}
	if x.stream != nil {
		t, ok := x.stream.has[name]
		return t, ok
	}
	t, err := x.file.Lookup(x.inFile[name])
	return t, err == nil
}

// Stream is the compressed file, from which parameters, and statistics that it
// has, are read in place of Read; nil if there is none.
func (x *Values) Stream() *Stream { return x.stream }

// Read fills dst with a variable's first contents. Statistics are taken from
// the file if it has them, and nothing that the source skips. An average has the contents of
// its parameter.
func (x *Values) Read(v *graph.Value, dst []byte) error {
	name := cmp.Or(v.Averaged(), v.Name)
	given := false
	if x.file != nil && (weight(v) || v.Role == graph.Average) || x.stream != nil && v.Role == graph.Average {
		_, given = x.lookup(name)
	}
	switch {
	case !given:
		return models.FillUntil(v, x.seed, dst, x.stop)
	case x.stream != nil:
		return x.readAgain(name, v.Offset(), dst)
	}
	name, from := x.inFile[name], int(v.Offset())/v.Meta.DType.Size()
	if v.Meta.DType.Stored() {
		return readError(narrowed(v, name, dst, func(piece []float32, at int) error {
			return x.file.ReadWeights(name, from+at, piece)
		}))
	}
	return readError(x.file.ReadWeights(name, from, shape.View[float32](dst)))
}

// narrowed is models.Narrowed for the numbers of a variable, which a tensor has.
func narrowed(v *graph.Value, tensor string, dst []byte, read func(piece []float32, at int) error) error {
	var failed error
	err := models.Narrowed(v.Meta, dst, func(piece []float32, at int) error {
		failed = read(piece, at)
		return failed
	})
	switch {
	case err == nil || failed != nil:
		return err
	case v.Tagged(graph.BaseTag):
		return fmt.Errorf("tensor %s: %w: set adapt.base to float32", tensor, err)
	}
	return fmt.Errorf("tensor %s: %w: use the weights as float32", tensor, err)
}

// readAgain fills dst with bytes of a parameter in a compressed file, which Stream passes only
// once: for its average.
func (x *Values) readAgain(name string, off int64, dst []byte) error {
	if x.again == nil {
		f, err := safetensors.OpenStream(context.Background(), x.source.File)
		if err != nil {
			return readError(err)
		}
		x.again = &again{stream: &Stream{file: f, vars: x.stream.vars, has: x.stream.has}}
	}
	if err := x.again.find(name, x.stop); err != nil {
		return err
	}
	copy(dst, x.again.contents[off:])
	return nil
}

// again is a second pass over a compressed file, for averages.
type again struct {
	stream   *Stream
	name     string // of the parameter that was read last; "": none was
	contents []byte // of it
}

// find reads a parameter. One behind the last is found without going back to the beginning.
func (a *again) find(name string, stop func() error) error {
	for rewound := false; a.name != name; {
		if stop != nil {
			if err := stop(); err != nil {
				return err
			}
		}
		at, n, err := a.stream.Next(context.Background())
		switch {
		case errors.Is(err, io.EOF) && !rewound:
			rewound = true
			err = a.stream.Rewind()
		case err == nil && at == name:
			a.contents = slices.Grow(a.contents[:0], int(n))[:n]
			if err = a.stream.Read(a.contents); err == nil {
				a.name = at
			}
		}
		if err != nil {
			a.name = ""
			return err
		}
	}
	return nil
}

// Until has Read end with the error of stop, which is asked while numbers are drawn; nil:
// it does not end.
func (x *Values) Until(stop func() error) { x.stop = stop }

// Close closes the file. A second call does nothing.
func (x *Values) Close() (err error) {
	if x.file != nil {
		err = x.file.Close()
	}
	if x.stream != nil {
		err = x.stream.file.Close()
	}
	if x.again != nil {
		err = errors.Join(err, x.again.stream.file.Close())
	}
	x.file, x.stream, x.again = nil, nil, nil
	return err
}
