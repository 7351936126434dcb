package configs

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Division says how samples are divided into training, validation and test parts where data.split
// is no number. Fields that were not given are zero.
type Division struct {
	Val, Test         float64 // shares of the samples, from 0 to below 1
	ValPath, TestPath string  // files in place of shares; "": there are none
	Stratify          bool    // each class has its share in each part
	By                string  // csv, a table of images: the column whose values keep rows together
	Latest            string  // csv, a table of images: the column whose largest values test
	Folds, Fold       int     // Fold, from 1, of Folds validates; 0: no folds
}

// Validates reports whether a part of the samples validates, as far as the config says.
func (d *Data) Validates() bool {
	if x := d.Division; x != nil {
		return x.Val > 0 || x.ValPath != "" || x.Folds > 0
	}
	return d.Split != 1
}

// splitKind is the Split of a Data, or its Division: a mapping.
type splitKind struct {
	number real
	files  bool     // parts may have files of their own
	keys   []string // of the mapping
}

// The keys of a Division, by the kind of data that has them.
var (
	partKeys  = []string{"val", "test"}
	foldKeys  = slices.Concat(partKeys, []string{"folds", "fold"})
	classKeys = slices.Concat(foldKeys, []string{"stratify"})
	tableKeys = slices.Concat(classKeys, []string{"by", "latest"})
)

const mostFolds = 1000

var (
	share   = real{min: 0, max: 1, under: true}
	aFold   = whole{1, mostFolds}
	theFold = whole{2, mostFolds}
)

func (s splitKind) expect() string {
	return s.number.expect() + ", or parts such as {val: 0.1, test: 0.1}"
}

func (s splitKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	data := dst.(*Data)
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		v, ok := s.number.parse(n)
		if !ok {
			d.mismatch(n, path, s.expect())
			return
		}
		data.Split, data.Division = v, nil
		return
	}
	x := &Division{}
	data.Split, data.Division = 0, x
	for name, e := range entries(d, n, path) {
		at := join(path, name)
		d.where[at] = d.posOf(e)
		if !slices.Contains(s.keys, name) {
			d.fail(d.pos(e.key), at, "unknown key%s", didYouMean(name, s.keys))
			continue
		}
		switch name {
		case "val":
			s.part(d, e.value, at, &x.Val, &x.ValPath)
		case "test":
			s.part(d, e.value, at, &x.Test, &x.TestPath)
		case "stratify":
			boolean{}.decode(d, e.value, at, &x.Stratify)
		case "by":
			column.decode(d, e.value, at, &x.By)
		case "latest":
			column.decode(d, e.value, at, &x.Latest)
		case "folds":
			theFold.decode(d, e.value, at, &x.Folds)
		case "fold":
			aFold.decode(d, e.value, at, &x.Fold)
		}
	}
}

// part reads a share, or the path of a file.
func (s splitKind) part(d *decoder, n *yaml.Node, path string, to *float64, file *string) {
	expected := share.expect()
	if s.files {
		expected += ", or the path of a file"
	}
	v, ok := share.parse(n)
	switch {
	case ok:
		*to = v
	case s.files && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && pathText.pattern.MatchString(n.Value):
		*file = d.path(n, path, n.Value)
	default:
		d.mismatch(n, path, expected)
	}
}

func (s splitKind) encode(src any, keep func(*key) bool) *yaml.Node {
	data := src.(*Data)
	x := data.Division
	if x == nil {
		return s.number.encode(&data.Split, keep)
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	put := func(name string, value *yaml.Node, given bool) {
		if given && slices.Contains(s.keys, name) {
			out.Content = append(out.Content, plain(name), value)
		}
	}
	partNode := func(share float64, path string) *yaml.Node {
		if path != "" {
			return str(path)
		}
		return float(share)
	}
	put("val", partNode(x.Val, x.ValPath), x.Folds == 0)
	put("test", partNode(x.Test, x.TestPath), x.Test > 0 || x.TestPath != "")
	put("stratify", boolean{}.encode(&x.Stratify, keep), true)
	put("by", str(x.By), x.By != "")
	put("latest", str(x.Latest), x.Latest != "")
	put("folds", theFold.encode(&x.Folds, keep), x.Folds > 0)
	put("fold", aFold.encode(&x.Fold, keep), x.Fold > 0)
	return out
}

func (splitKind) isZero(src any) bool {
	d := src.(*Data)
	return d.Split == 0 && d.Division == nil
}

// resolveSplit refuses parts that do not go together. Classes keep their shares unless the config
// says otherwise.
func resolveSplit(d *decoder, c *Config) {
	x := c.Data.Division
	if x == nil {
		return
	}
	const at = "data.split"
	bad := func(key, format string, args ...any) {
		d.against([]string{at + "." + key, at}, format, args...)
	}
	divides := x.Val > 0 || x.Test > 0 || x.Folds > 0
	classes := c.Data.Task == "classification" && (c.Data.Source != "lines" || c.Data.Label != "")
	if stratify := at + ".stratify"; !c.Given(stratify) {
		keys, _ := dataSection.active(c.Data.Source)
		i := slices.IndexFunc(keys, func(k *key) bool { return k.name == "split" })
		s, ok := keys[i].kind.(splitKind)
		x.Stratify = ok && slices.Contains(s.keys, "stratify") && divides && classes && x.Latest == ""
	}
	switch {
	case x.Val+x.Test >= 1:
		bad("test", "val and test are all samples, %v of them together, and none are left to train on; give shares that add up to less than 1", x.Val+x.Test)
	case !divides && x.ValPath == "" && x.TestPath == "":
		bad("val", "no part has samples; give val, test or folds, or data.split: 1 to train on all samples")
	case x.Folds > 0 && x.Fold == 0:
		bad("folds", "fold is missing, the number of the one that validates, from 1 to %d; give it, such as {folds: %d, fold: 1}", x.Folds, x.Folds)
	case x.Fold > x.Folds && x.Folds > 0:
		bad("fold", "%d is above folds, %d; give a number from 1 to %d", x.Fold, x.Folds, x.Folds)
	case x.Fold > 0 && x.Folds == 0:
		bad("fold", "folds is missing, the number of parts that validate in turn; give it, such as {folds: 5, fold: %d}", x.Fold)
	case x.Folds > 0 && c.Given(at+".val"):
		bad("val", "with folds, the fold validates; leave val out")
	case x.Latest != "" && (x.By != "" || x.Folds > 0 || x.Stratify):
		bad("latest", "it leaves no choice of samples to %s; leave one of the two out", strings.Join(x.chosenBy(), ", "))
	case x.Stratify && !classes:
		bad("stratify", "true needs classes as targets; leave it out")
	case !divides && (x.By != "" || x.Latest != "" || x.Stratify):
		bad("by", "%s without effect: no share of the samples is taken; give a share of val or test, or folds", strings.Join(append(x.chosenBy(), x.latest()...), ", "))
	}
}

// chosenBy names the keys that choose samples in an order of their own.
func (x *Division) chosenBy() (keys []string) {
	if x.By != "" {
		keys = append(keys, "by")
	}
	if x.Folds > 0 {
		keys = append(keys, "folds")
	}
	if x.Stratify {
		keys = append(keys, "stratify")
	}
	return keys
}

// latest names that key, if it is given.
func (x *Division) latest() []string {
	if x.Latest == "" {
		return nil
	}
	return []string{"latest"}
}
