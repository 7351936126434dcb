package datasets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/engine/shape"
)

// The causes of errors.
var (
	ErrFormat = errors.New("malformed data")   // what a file holds; the message says where
	ErrSpec   = errors.New("invalid dataset")  // what was asked for
	ErrTooFew = errors.New("too few samples")  // a part would be empty
	ErrDst    = errors.New("destination size") // memory given to Read does not fit
	ErrClosed = errors.New("loader is closed")
)

// blamed is an error about one option.
type blamed struct {
	option string
	error
}

func (b *blamed) Unwrap() error { return b.error }

// blame says which option, by its name in a config, an error is about.
func blame(option string, err error) error { return &blamed{option, err} }

// Blame is the option that an error of Open is about, by its name in a config:
// the path, unless something else is known.
func Blame(err error) string {
	var b *blamed
	if errors.As(err, &b) {
		return b.option
	}
	return "path"
}

// Spec says which data to open and how. The zero value of every option is its
// default.
type Spec struct {
	Source string // digits, mnist, csv, text or tensors
	// Path is the file or, for mnist and pairs of .npy files, the folder.
	// digits has none; mnist takes "builtin:mnist" and text
	// "builtin:shakespeare" for the data inside the binary.
	Path string
	Seed uint64 // of the split and of the order
	// Split is the fraction of samples that are for training, up to 1, which
	// leaves no validation part. 0 means 0.8; 0.9 for text, 1 for tensors, and
	// the files' own split for mnist where they have one.
	Split float64
	// KeepOrder leaves the training part unshuffled: in the order of the file
	// if Split is 1, of the random split otherwise.
	KeepOrder bool
	// Like, if not nil, is of the data that a model was trained on: classes,
	// vocabulary, features and scaling are then its own, so that the model can
	// be evaluated. Where the data is another by its fingerprint, all of it is
	// one part, Train; an MNIST folder with both pairs keeps its two.
	Like *Info

	// ScaleTarget, of csv and regression, brings targets to mean 0 and
	// deviation 1 over the training part.
	ScaleTarget bool
	// UnitTarget, of csv and regression and of tensors, refuses targets that do
	// not lie from 0 to 1.
	UnitTarget bool

	CSV     CSVOptions
	Text    TextOptions
	Images  ImageOptions
	Tensors TensorOptions
}

// The values of CSVOptions.Header and CSVOptions.Task; "" is the first.
const (
	HeaderAuto = "auto"
	HeaderYes  = "yes"
	HeaderNo   = "no"

	TaskClassification = "classification"
	TaskRegression     = "regression"
)

// CSVOptions are the options of csv.
type CSVOptions struct {
	// Labels are the columns to predict, by name or by number from 0, negative
	// from the end; none means the last. Classification has exactly one.
	Labels      []string
	Ignore      []string // columns to leave out, by name or number
	Header      string   // HeaderAuto, HeaderYes or HeaderNo
	Task        string   // TaskClassification or TaskRegression
	Standardize bool     // features to mean 0, deviation 1 over the training part
	Comma       rune     // 0 means ','
}

// TextOptions are the options of text.
type TextOptions struct {
	Context int // characters per sample, at least 1
}

// ImageOptions are the options of mnist and digits: pixels are scaled to
// [0,1], then, if Std is not 0, become (x-Mean)/Std.
type ImageOptions struct {
	Mean, Std float64
}

// TensorOptions are the options of tensors: the names of the two arrays, ""
// meaning "input" and "target".
type TensorOptions struct {
	Input, Target string
}

// BuiltinMNIST and BuiltinShakespeare are paths of data inside the binary.
const (
	BuiltinMNIST       = "builtin:mnist"
	BuiltinShakespeare = "builtin:shakespeare"
)

// builtins are the data inside the binary, by source. digits needs no path.
var builtins = map[string]string{"mnist": BuiltinMNIST, "text": BuiltinShakespeare}

// sources are the known sources, with what opens them.
var sources = map[string]struct {
	open   func(context.Context, Spec) (*Dataset, error)
	inputs func(context.Context, Spec, *Info, string) ([]*table, error)
}{
	"digits":  {openDigits, inOne(digitsInputs)},
	"mnist":   {openMNIST, inOne(mnistInputs)},
	"csv":     {openCSV, inOne(csvInputs)},
	"text":    {openText, textInputs},
	"tensors": {openTensors, inOne(tensorsInputs)},
}

// inOne makes a list of the one table that all samples are in.
func inOne(f func(context.Context, Spec, *Info, string) (*table, error)) func(context.Context, Spec, *Info, string) ([]*table, error) {
	return func(ctx context.Context, s Spec, info *Info, path string) ([]*table, error) {
		t, err := f(ctx, s, info, path)
		return []*table{t}, err
	}
}

// Sources lists the names a Spec may have as its Source.
func Sources() []string { return []string{"digits", "mnist", "csv", "text", "tensors"} }

// Open reads the data that s describes. It blocks; ctx can end it early. The
// data stays in memory for as long as the Dataset is referenced.
func Open(ctx context.Context, s Spec) (*Dataset, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	ds, err := sources[s.Source].open(ctx, s)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", err, s.whereTo())
	}
	if err == nil && s.Like != nil {
		err = ds.follow(s)
	}
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// follow checks that the data is such as s.Like is of, and takes from there
// what is known of it.
func (ds *Dataset) follow(s Spec) error {
	like, have := s.Like, &ds.Info
	for _, f := range [][2]Field{{have.Inputs[0], like.Inputs[0]}, {have.Target, like.Target}} {
		if !f[0].Meta.Equal(f[1].Meta) {
			return fmt.Errorf("%w: %s: the %s of a sample is %v, the model was trained on %v", ErrFormat, s.Path, f[0].Name, f[0].Meta, f[1].Meta)
		}
	}
	if have.Classes > like.Classes || have.Tokens > like.Tokens {
		return fmt.Errorf("%w: %s: has %d classes and %d tokens, the model was trained on %d and %d", ErrFormat, s.Path, have.Classes, have.Tokens, like.Classes, like.Tokens)
	}
	print := have.Fingerprint
	ds.Info = *like
	ds.Info.Fingerprint = print
	return nil
}

// whereTo says what can be done about a path that is not there.
func (s Spec) whereTo() string {
	hint := "set data.path to an existing one"
	if wd, err := os.Getwd(); err == nil && !filepath.IsAbs(s.Path) {
		hint += ", which starts from " + wd + " unless it is absolute"
	}
	if b := builtins[s.Source]; b != "" {
		hint += ", or " + b + ", which ships inside"
	}
	return hint
}

// OpenInputs reads the samples at path, in the format of s, without their
// targets and in their own order: what the model is to predict from. info is
// of the Dataset the model was trained on; its scaling, vocabulary and shapes
// are used as they are. Targets that the file has all the same are left out.
// Samples of one shape are a part; a text's last window, if it is shorter, is
// one of its own.
func OpenInputs(ctx context.Context, s Spec, info *Info, path string) ([]*Part, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	ts, err := sources[s.Source].inputs(ctx, s, info, path)
	if err != nil {
		return nil, err
	}
	var parts []*Part
	for _, t := range ts {
		if have, want := t.columns[0].field.Meta, info.Inputs[0].Meta; len(t.columns) != len(info.Inputs) || !have.Equal(want) && !shorter(have, want) {
			return nil, fmt.Errorf("%w: %s: a sample is %v, the model was trained on %v", ErrFormat, path, have, want)
		}
		parts = append(parts, &Part{table: t, count: t.rows})
	}
	return parts, nil
}

// shorter reports whether a sample is the beginning of a window of ids.
func shorter(have, window shape.Meta) bool {
	ids := have.DType == shape.Int32 && window.DType == shape.Int32
	return ids && have.Shape.Rank() == 1 && window.Shape.Rank() == 1 && have.Shape[0] < window.Shape[0]
}

func (s Spec) check() error {
	if _, ok := sources[s.Source]; !ok {
		return fmt.Errorf("%w: source %q is unknown: use one of %s", ErrSpec, s.Source, strings.Join(Sources(), ", "))
	}
	if s.Path == "" && s.Source != "digits" {
		return fmt.Errorf("%w: source %s needs a path: %s", ErrSpec, s.Source, s.whereTo())
	}
	if strings.HasPrefix(s.Path, "builtin:") && s.Path != builtins[s.Source] {
		return fmt.Errorf("%w: source %s has no %q: there are %s for mnist and %s for text, and digits needs no path",
			ErrSpec, s.Source, s.Path, BuiltinMNIST, BuiltinShakespeare)
	}
	if !(s.Split >= 0 && s.Split <= 1) {
		return fmt.Errorf("%w: split %v is not a fraction between 0 and 1", ErrSpec, s.Split)
	}
	if i := s.Images; !(i.Std >= 0) || math.IsInf(i.Std, 0) || math.IsNaN(i.Mean) || math.IsInf(i.Mean, 0) {
		return fmt.Errorf("%w: images need a finite mean and a positive std, not %v and %v", ErrSpec, i.Mean, i.Std)
	}
	return nil
}

// split is the fraction for training, where the source's default is byDefault.
func (s Spec) split(byDefault float64) float64 {
	if s.Split == 0 {
		return byDefault
	}
	return s.Split
}

// part is split for data with that fingerprint: of other data than s.Like is
// of, nothing was trained on, and all of it is one part.
func (s Spec) part(fingerprint string, byDefault float64) float64 {
	if s.Like != nil && s.Like.Fingerprint != fingerprint {
		return 1
	}
	return s.split(byDefault)
}
