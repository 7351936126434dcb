package datasets

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// Spec describes the data to open. The zero value of every option is its
// default. In JSON it is what decides the data: a [Shelf] compares that.
type Spec struct {
	Source string // digits, mnist, images, csv, text, lines or tensors; any with Filled
	// Filled are samples that a function writes. Path and the options of formats are
	// not used then.
	Filled *Filled `json:"-"`
	// Path is the file or, for mnist and pairs of .npy files, the folder.
	// digits has none. "builtin:mnist" and "builtin:shakespeare" are the data
	// inside the binary for mnist and text.
	Path string
	Seed uint64 // of the split and of the order
	// Split is the fraction of samples to train on. The rest validate; 1 leaves
	// none. 0 means 0.8; 0.9 for text, 1 for tensors, and the files' own split
	// for mnist where they have one.
	Split float64
	// Division divides the samples in place of Split; nil: Split does.
	Division *Division
	// KeepOrder leaves the training part unshuffled: in the order of the file
	// if Split is 1, of the random split otherwise.
	KeepOrder bool
	// Like is the Info of the data that a model was trained on, if this data is
	// to evaluate it: the classes, vocabulary, features and scaling are then
	// taken from it. Data with another fingerprint is one part, Train; only an
	// MNIST folder with both pairs keeps its two.
	Like *Info
	// GoesOn, with Like, says that the run that Like is of goes on with this data, which is split
	// as in training.
	GoesOn bool

	// Note hears how a file of OpenInputs is other than its user may expect; nil:
	// nobody. Of Open, Dataset.Notes has it.
	Note func(text string) `json:"-"`

	// Memory is the most bytes that the samples may take. Data that needs more is
	// refused before it is read. 0 means no limit.
	Memory int64 `json:"-"`

	// ScaleTarget, for csv and regression, scales targets to mean 0 and
	// deviation 1, as measured on the training part.
	ScaleTarget bool
	// Balance measures, in the training part, with which weights rare targets count as much as
	// frequent ones: Info.Balanced.
	Balance bool
	// UnitTarget, for tensors and for csv and regression, refuses targets
	// outside 0 to 1.
	UnitTarget bool

	CSV CSVOptions
	// Columns, for csv, say how columns are used: as numbers, categories, dates and so on.
	// Without any, a table in which every field is a number is read as that, and the kinds
	// of another table are found in its training part.
	Columns columns.Options
	// Block, for csv, keeps the samples in a file instead of memory, and shuffles them by blocks
	// of so many bytes. 0: they are in memory.
	Block int64
	// SkipRows, for csv, is the lines above the header of each file of text.
	SkipRows int
	// With, for csv, are columns whose texts Part.With has for each sample: an identifier, say.
	With []string
	// Describe, for csv, describes the columns of a table of numbers, too.
	Describe bool

	Text     TextOptions
	Lines    LineOptions
	Images   ImageOptions
	Pictures PictureOptions
	Tensors  TensorOptions
}

// The values of CSVOptions.Header and CSVOptions.Task; "" means the first.
const (
	HeaderAuto = "auto"
	HeaderYes  = "yes"
	HeaderNo   = "no"

	TaskClassification = "classification"
	TaskRegression     = "regression"
	TaskMultilabel     = "multilabel" // each label is 0 or 1, or a word of a boolean
)

// CSVOptions are the options of csv.
type CSVOptions struct {
	// Labels are the columns to predict, by name or by number from 0; negative
	// numbers count from the end. None means the last column. Classification
	// has one.
	Labels      []string
	Ignore      []string // columns that are not read, by name or number
	Header      string   // HeaderAuto, HeaderYes or HeaderNo
	Task        string   // TaskClassification, TaskRegression or TaskMultilabel
	Standardize bool     // scale features to mean 0 and deviation 1, as measured on the training part
	Comma       rune     // 0 means ','
}

// TextOptions are the options of text.
type TextOptions struct {
	Context int // tokens per sample, at least 1
	// Tokenizer is char, bytes, gpt2, the path of a tokenizer.json or its folder,
	// or bpe:N, which learns N tokens from the text. "" means char.
	Tokenizer string
	// Known is used in place of the one that Tokenizer names, if it is not nil: a
	// run that goes on needs its own.
	Known tokenizer.Tokenizer `json:"-"`
	// KnownChat is used in place of what the files of Tokenizer and ChatTemplate say, if it is not nil.
	// Where it has no template, ChatTemplate gives that.
	KnownChat *chat.Format `json:"-"`
	More      []string     // files and folders after Spec.Path
	Field     string       // of JSON lines, the key of the text, or of a list of messages; "": files are text
	// ChatTemplate is the path of a template that turns messages into text, or of a folder with
	// chat_template.jinja or tokenizer_config.json; "": that of the tokenizer.json. Truncate cuts conversations off at Context;
	// otherwise longer ones are refused.
	ChatTemplate string
	Truncate     bool
	// Progress hears what is done to the text and how far, from 0 to 1. nil:
	// nobody asks.
	Progress func(doing string, share float64) `json:"-"`
}

// LineOptions are the options of lines, beside those of TextOptions but Context.
type LineOptions struct {
	// Buckets are the positions to which samples are padded, each to the least that has
	// room for it.
	Buckets []int
	// Label is, of JSON lines, the key of the class of a text; "": each token is predicted
	// from those before it.
	Label string
	// Truncate cuts samples off at the largest bucket. Otherwise a longer one is refused.
	Truncate bool
}

// ImageOptions are the options of mnist and digits. Pixels are scaled to [0,1]
// and then, unless Std is 0, become (x-Mean)/Std.
type ImageOptions struct {
	Mean, Std float64
}

// TensorOptions are the options of tensors: the names of the two arrays. ""
// means "input" and "target".
type TensorOptions struct {
	Input, Target string
}

// BuiltinMNIST and BuiltinShakespeare are paths of data inside the binary.
const (
	BuiltinMNIST       = "builtin:mnist"
	BuiltinShakespeare = "builtin:shakespeare"
)

// builtins are the paths of data inside the binary, by source. digits needs no
// path.
var builtins = map[string]string{"mnist": BuiltinMNIST, "text": BuiltinShakespeare, "lines": BuiltinShakespeare}

// note tells Note.
func (s Spec) note(text string) {
	if s.Note != nil {
		s.Note(text)
	}
}

// check reports options that cannot be followed.
func (s Spec) check() error {
	if s.Filled == nil && s.Path == "" && s.Source != "digits" {
		return fmt.Errorf("%w: source %s needs a path: %s", ErrSpec, s.Source, s.pathAdvice())
	}
	if strings.HasPrefix(s.Path, "builtin:") && s.Path != builtins[s.Source] {
		return fmt.Errorf("%w: source %s has no %q: there are %s for mnist and %s for text and lines, and digits needs no path",
			ErrSpec, s.Source, s.Path, BuiltinMNIST, BuiltinShakespeare)
	}
	if len(s.With) > 0 && (s.Source != "csv" || s.Filled != nil) {
		return fmt.Errorf("%w: the samples of source %s are no rows of a table, so no columns can be written beside the answers: leave them out", ErrSpec, s.Source)
	}
	if !(s.Split >= 0 && s.Split <= 1) {
		return fmt.Errorf("%w: split %v is not a fraction between 0 and 1", ErrSpec, s.Split)
	}
	if s.Division != nil && s.Split != 0 {
		return blame("split", fmt.Errorf("%w: Split and Division exclude each other: leave one out", ErrSpec))
	}
	if d := s.Division; d != nil {
		if err := d.check(); err != nil {
			return err
		}
	}
	if i := s.Images; !(i.Std >= 0) || math.IsInf(i.Std, 0) || math.IsNaN(i.Mean) || math.IsInf(i.Mean, 0) {
		return fmt.Errorf("%w: images need a finite mean and a positive std: the mean is %v, the std %v", ErrSpec, i.Mean, i.Std)
	}
	return nil
}

// pathAdvice says what to do about a path that is missing, leads nowhere, or to a
// folder that lacks a file.
func (s Spec) pathAdvice() string {
	advice := "set data.path to an existing one"
	_, err := os.Stat(s.Path)
	there := err == nil
	if there {
		advice = "set data.path to a folder that has it"
	}
	if b := builtins[s.Source]; b != "" {
		advice += ", or to " + b + ", which is inside the binary"
	}
	if there && s.Source == "tensors" {
		advice = "name another array with data.input or data.target, or " + advice
	}
	full, err := filepath.Abs(s.Path)
	switch {
	case err != nil || there || filepath.IsAbs(s.Path):
		return advice
	case s.Path == "":
		return advice + "; a relative path counts from the working directory, " + full
	}
	return fmt.Sprintf("its full path is %s; %s", full, advice)
}

// splitOr is the fraction to train on: Split, or the source's default. It is 0 where Division
// divides the samples.
func (s Spec) splitOr(byDefault float64) float64 {
	switch {
	case s.Division != nil && s.Division.divides():
		return 0
	case s.Division != nil:
		return 1
	case s.Split == 0:
		return byDefault
	}
	return s.Split
}

// trainFraction is splitOr for data with that fingerprint. It is 1 for data
// that s.Like was not trained on: nothing has to be held back from it.
func (s Spec) trainFraction(fingerprint string, byDefault float64) float64 {
	if s.otherData(fingerprint) {
		return 1
	}
	return s.splitOr(byDefault)
}

// otherData reports whether s.Like is of data with another fingerprint than this.
func (s Spec) otherData(fingerprint string) bool {
	return s.Like != nil && !s.GoesOn && s.Like.Fingerprint != fingerprint
}

// textPaths are the paths of a text.
func (s Spec) textPaths() []string { return append([]string{s.Path}, s.Text.More...) }

// textName names a text by its paths.
func (s Spec) textName() string { return "text " + s.textFiles() }

// textFiles names the files of a text.
func (s Spec) textFiles() string {
	if n := len(s.Text.More); n > 0 {
		return fmt.Sprintf("%s and %d more", s.Path, n)
	}
	return s.Path
}
