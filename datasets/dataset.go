package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

// Dataset is opened data. Its parts share its memory.
type Dataset struct {
	Name  string // the source, with the path if it has one
	Train *Part
	Val   *Part // nil if no samples validate
	Test  *Part // which training never sees; nil: there is none
	Info  Info
	Notes []string // how the data is other than its user may expect
	first []string // those of Notes that a run which goes on does not repeat
	// Columns describe the columns of a csv file whose kinds were found, and Options find
	// the same kinds again. nil: every field is a number.
	Columns []columns.Description
	Options []columns.Option
}

// parts are those that there are.
func (ds *Dataset) parts() []*Part {
	return slices.DeleteFunc([]*Part{ds.Train, ds.Val, ds.Test}, func(p *Part) bool { return p == nil })
}

// again is the dataset as a run has it that goes on.
func (ds *Dataset) again() *Dataset {
	notes := slices.DeleteFunc(slices.Clone(ds.Notes), func(note string) bool { return slices.Contains(ds.first, note) })
	return &Dataset{Name: ds.Name, Train: ds.Train, Val: ds.Val, Test: ds.Test, Info: ds.Info, Notes: notes}
}

// Info describes a dataset without its samples. It encodes as JSON, and is all
// that OpenInputs needs of the training data.
type Info struct {
	Inputs []Field // the input; of samples with different lengths also the length, i32[]
	// Buckets are the positions to which samples of different lengths are padded, from
	// the fewest; nil if all samples have one shape.
	Buckets []int `json:",omitempty"`
	// Chats: samples are conversations, and those of a Dataset have several in a row, with one more
	// field, the positions i32[T] of tokens in their own, behind Inputs. A target is [Padding] where the next token is not of
	// an answer.
	Chats bool `json:",omitempty"`
	// Target is i32[] (a class), i32[T] (a class per position) or f32[...]
	// (numbers to predict). With Buckets, PerPosition tells f32[T,...] from others.
	Target     Field
	Classes    int      // number of classes of an i32 target; 0 otherwise
	ClassNames []string // by class; nil if they have none
	// TargetNames, for csv, are the labels by number of the target, where those are several or
	// each is 0 or 1.
	TargetNames []string `json:",omitempty"`
	// Labels, for csv, are the names of the columns with labels; nil: the file has no names.
	// Checkpoints of earlier versions do not say so.
	Labels []string `json:",omitempty"`
	// Balanced, with Spec.Balance, are weights of the classes: n/(k·count) for one with count of the
	// n targets of the training part, which have k classes. Of targets from 0 to 1 they are of the 1 of each
	// number: its zeros for each one.
	Balanced []float64 `json:",omitempty"`
	// Tokens is the number of distinct ids in an i32 input; 0 for f32 inputs.
	Tokens int
	// Tokenizer is that of a text; nil for other data. In JSON, that of characters
	// is Vocab, their string.
	Tokenizer tokenizer.Tokenizer `json:"-"`
	// Chat, of a text, says how conversations become one and what ends an answer; nil: nothing is known.
	Chat     *chat.Format `json:",omitempty"`
	Features []string     `json:",omitempty"` // csv only: names of the features
	// Header, for a table of numbers: it named its columns, if only by numbers. Checkpoints of
	// earlier versions do not say so.
	Header bool `json:",omitempty"`
	// Columns, for csv, turn a row into features. nil: each feature is a column of numbers.
	Columns *columns.Fitted `json:",omitempty"`
	Scaling *Scaling        `json:",omitempty"` // of standardised features
	// Pictures, for images, say how one becomes a sample.
	Pictures *Pictures `json:",omitempty"`
	// TargetScaling is the scaling of standardised targets. Undo it on the
	// answers of a model.
	TargetScaling *Scaling `json:",omitempty"`
	// Fingerprint is the SHA-256, in hex, of the decoded samples and of the
	// options that choose and order them. With equal fingerprints, training reads
	// the same samples in the same order. Those of a part with files of its own follow, after
	// a "+".
	Fingerprint string
}

// ClassName is the name of a class, or the text of the token that it is, with bytes that are no
// UTF-8 as \x80; "" if it has none.
func (i *Info) ClassName(class int) string {
	switch {
	case class < len(i.ClassNames):
		return i.ClassNames[class]
	case i.ClassNames == nil && i.Tokenizer != nil && class < i.Tokenizer.Len():
		return inUTF8(tokenizer.Text(i.Tokenizer, int32(class)))
	}
	return ""
}

// inUTF8 is a text with bytes that are no UTF-8 as \x80: a token of bytes may be a part of a character.
func inUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

// ClassNamed is the class of a name; of data whose classes have none, of its number.
func (i *Info) ClassNamed(name string) (class int, ok bool) {
	if i.ClassNames != nil {
		class = slices.Index(i.ClassNames, name)
		if class < 0 && len(i.ClassNames) == 2 {
			class = sameTruth(i.ClassNames, name)
		}
		return class, class >= 0
	}
	class, err := strconv.Atoi(name)
	return class, err == nil && class >= 0 && class < i.Classes && strconv.Itoa(class) == name
}

// sameTruth is the class that a word means where the two are such as yes and no: true means yes. It is -1
// if there is none.
func sameTruth(classes []string, name string) int {
	wanted, ok := columns.Truth([]byte(name))
	at := -1
	for i, class := range classes {
		truth, also := columns.Truth([]byte(class))
		if ok = ok && also; truth == wanted {
			at = i
		}
	}
	if !ok {
		return -1
	}
	return at
}

// labels are the names of the columns with labels, as far as they are known.
func (i *Info) labels() []string {
	if i.Labels == nil {
		return i.TargetNames
	}
	return i.Labels
}

// Row says which columns a row of the table has that the data is; nil: it is no table.
func (i *Info) Row() *columns.Fitted {
	if i.Columns == nil && len(i.Features) > 0 {
		f := columns.NumbersOf(i.Features)
		f.Header = i.Header
		return f
	}
	return i.Columns
}

// hash is that of all it says, in hex; "" if it cannot be told.
func (i *Info) hash() string {
	text, err := json.Marshal(i)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// plainInfo is Info without methods.
type plainInfo Info

// infoJSON is Info in JSON.
type infoJSON struct {
	plainInfo
	Vocab *tokenizer.Chars `json:",omitempty"` // the tokenizer, if it is of characters
	Other *tokenizer.Saved `json:"Tokenizer,omitempty"`
}

// MarshalJSON writes the tokenizer, too.
func (i Info) MarshalJSON() ([]byte, error) {
	out := infoJSON{plainInfo: plainInfo(i)}
	if chars, ok := i.Tokenizer.(*tokenizer.Chars); ok {
		out.Vocab = chars
	} else if i.Tokenizer != nil {
		out.Other = &tokenizer.Saved{Tokenizer: i.Tokenizer}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (i *Info) UnmarshalJSON(b []byte) error {
	var in infoJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*i = Info(in.plainInfo)
	switch {
	case in.Vocab != nil:
		i.Tokenizer = in.Vocab
	case in.Other != nil:
		i.Tokenizer = in.Other.Tokenizer
	}
	return nil
}

// CheckIDs refuses tokens and classes that the data has no room for, among the fields of
// samples that code has written.
func (i *Info) CheckIDs(fields [][]byte) error {
	if err := i.CheckTokens(fields[0]); err != nil {
		return err
	}
	if i.Target.Meta.DType != shape.Int32 {
		return nil
	}
	classes := shape.View[int32](fields[len(fields)-1])
	if i.Buckets != nil {
		classes = slices.DeleteFunc(slices.Clone(classes), func(class int32) bool { return class == Padding })
	}
	return within("class", "Classes", classes, i.Classes)
}

// CheckTokens is CheckIDs for the inputs of samples alone.
func (i *Info) CheckTokens(inputs []byte) error {
	if i.Inputs[0].Meta.DType != shape.Int32 {
		return nil
	}
	return within("token", "Tokens", shape.View[int32](inputs), i.Tokens)
}
