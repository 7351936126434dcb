package configs

import (
	"reflect"
	"regexp"

	"github.com/berth-ml/berth/engine/registry"
)

var (
	dataPath  = key{name: "path", kind: pathText, at: at(func(d *Data) *string { return &d.Path }), required: true}
	dataSplit = key{name: "split", kind: splitKind{number: fraction, keys: classKeys}, at: at(func(d *Data) *Data { return d }), def: "0.8",
		doc: "fraction of the samples to train on; the rest validate; 1: none do. Or [parts](tables.md#splits): " + partsDoc + classDoc}
	dataTask = key{name: "task", kind: task, at: at(func(d *Data) *string { return &d.Task }), def: "classification",
		doc: "`classification`: the target is a class; `regression`: the target is numbers"}
	dataPositive = key{name: "positive", kind: fieldWord{}, at: at(func(d *Data) *string { return &d.Positive }), free: true, kept: true,
		doc: "of two classes, the name of the positive one, which `f1_positive`, `precision_positive`, `recall_positive` and `average_precision` are about; without the key, the second one, in sorted order"}
	textPath      = key{name: "path", kind: paths{pathText}, at: at(func(d *Data) *Data { return d }), required: true}
	dataTokenizer = key{name: "tokenizer", kind: text{path: true, named: true, valid: "char, bytes, gpt2, bpe:N or the path of a tokenizer.json", pattern: pathText.pattern},
		at: at(func(d *Data) *string { return &d.Tokenizer }), def: "char",
		doc: "`char`: the characters of the text; `bytes`: its bytes; `gpt2`: GPT-2's 50,257 tokens, inside the binary; `bpe:N`: N tokens that are learnt from the text (a byte pair encoding); or the path of a `tokenizer.json` with such an encoding, or of its folder"}
	dataField = key{name: "field", kind: anyText, at: at(func(d *Data) *string { return &d.Field }),
		doc: "for JSON lines (`.jsonl`): the key of each line's text, such as `text`. Each line is a document"}
	dataContext = key{name: "context", kind: counting, at: at(func(d *Data) *int { return &d.Context }), def: "0",
		doc: "tokens in a sample; 0: `model.context`, or 64 for a model without it"}
	dataTruncate = key{name: "truncate", kind: boolean{}, at: at(func(d *Data) *bool { return &d.Truncate }), def: "false", free: true, // the samples are part of the data's fingerprint
		doc: "cut longer samples off; otherwise they are refused"}
	ownSplit = key{name: "split", kind: splitKind{number: real{min: 0, max: 1}, keys: foldKeys}, at: dataSplit.at, def: "0",
		doc: "fraction of the samples to train on; the rest validate; 0: the source's own validation samples, or 0.8 where it has none; 1: none validate. Or [parts](tables.md#splits): " + partsDoc}
)

// leastBlock is the smallest block of samples that is shuffled.
const leastBlock = 4 << 10

// What the documentation says of the keys of a Division.
const (
	partsDoc = "`val` and `test` are fractions of the samples; the test part is evaluated once, after the last step; with `folds: 5, fold: 2` the second fifth of the samples validates"
	classDoc = "; `stratify`, true unless it is set, keeps the share of each class in each part"
	filesDoc = "; `val` and `test` may be paths, too"
)

// splitOf is the key of the split with other keys of parts, default and documentation.
func splitOf(def, doc string, s splitKind) *key {
	k := with(dataSplit, doc)
	k.kind, k.def = s, def
	return k
}

// SourceGiven is the source of samples that a Go program gives when it opens a run.
const SourceGiven = "given"

var dataSection = chosen(&section{
	doc:        "The training data. Relative paths in a config start from its folder, and those of flags, `--set` and variables from the working folder. `data: digits` is short for `data: {source: digits}`.",
	pos:        posOf(func(d *Data) *Pos { return &d.Pos }),
	shorthand:  "source",
	names:      registry.Source,
	registered: registeredIn(func(d *Data) *Registered { return &d.Registered }),
	extra:      sourceKeys,
	selector: &key{name: "source",
		at: at(func(d *Data) *string { return &d.Source }), required: true, doc: "the source of the samples; it decides the other keys"},
	variants: []variant{
		{"digits", "1,797 handwritten digits of 8×8 pixels, inside the binary. Pixels of 0 to 16 become numbers of 0 to 1.", []*key{&dataSplit}},
		{"mnist", "Handwritten digits of 28×28 pixels in IDX files, packed by gzip or zstd or not. Pixels of 0 to 255 become numbers of 0 to 1.", []*key{
			with(dataPath, "the folder of `train-images-idx3-ubyte[.gz]` and the other three files, or `builtin:mnist`, the 10,000 test images inside the binary"),
			splitOf("0", "fraction of `train-*` to train on; 0: train on all of it and validate on `t10k-*`, or use 0.8 if only one of the two is there. Or [parts](tables.md#splits) of `train-*`: "+partsDoc+classDoc+filesDoc,
				splitKind{number: real{min: 0, max: 1}, files: true, keys: classKeys}),
		}},
		{"images", "Photos and other images: PNG, JPEG, GIF and WebP files of 8 or 16 bits, grey or in colour, and the binary files of CIFAR-10 and CIFAR-100. Each becomes numbers of mean 0 and deviation 1 in each channel, as measured on the training part. [More on images](images.md).", []*key{
			with(dataPath, "a folder with a folder for each class; a table (CSV, JSON lines or Parquet) with the path of an image and its class in each row, the paths from the table's folder on; or a folder with the binary files of CIFAR, or one of them"),
			{name: "size", kind: sides{}, at: at(func(d *Data) *[]int { return &d.Size }),
				doc: "height and width that images are brought to, such as `[64, 64]`; without the key, all images must have one size"},
			{name: "fit", kind: enum{"crop", "pad", "stretch"}, at: at(func(d *Data) *string { return &d.Fit }), def: "crop",
				doc: "what becomes of an image of another shape: its middle is taken (`crop`), black is added on both sides (`pad`), or it is stretched"},
			splitOf("0", "fraction of the images of each class to train on; the rest validate; 0: CIFAR's own test images validate, and of other images a fifth; 1: none do. Or [parts](tables.md#splits): "+partsDoc+classDoc+
				"; in a table of images, `by: patient` keeps the rows with one value of a column together, and `latest: date` has the newest rows test, and those before them validate"+filesDoc,
				splitKind{number: real{min: 0, max: 1}, files: true, keys: tableKeys}),
			{name: "augment", kind: augments{}, at: at(func(d *Data) *[]Augment { return &d.Augment }), def: "[]",
				doc: "random changes to each image that trains, in this order and other ones in each epoch: `flip` swaps left and right in half of the images; `{crop: 4}` moves one by up to 4 pixels each way; `{rotate: 10}` turns one by up to 10 degrees each way; `{erase: 0.25}` clears a rectangle in a quarter of them; `{mixup: 0.2}`, at the end, mixes each with another one of its batch, and their classes. What comes in from outside is the mean. [More on augmentation](images.md#augmentation)"},
			&dataPositive,
		}},
		{"csv", "A table with a row for each sample: CSV, JSON lines or Parquet. The kind of each column is found in the training part: numbers, booleans, categories and dates become features; texts and identifiers are left out. What is found is printed before training, kept in the run's config, and changed by `columns`. [More on tables](tables.md).", []*key{
			with(dataPath, "the file; or a pattern such as `sales-*.csv`, for all files that match it, in the order of their names. The contents say whether they are CSV, JSON lines or Parquet, and texts may be packed by gzip or zstd"),
			splitOf("0.8", "fraction of the rows to train on; the rest validate; 1: none do. Or [parts](tables.md#splits): "+partsDoc+classDoc+
				"; `by: customer` keeps the rows with one value of a column together; `latest: date` has the newest rows test, and those before them validate"+filesDoc,
				splitKind{number: fraction, files: true, keys: tableKeys}),
			{name: "memory", kind: size{least: leastBlock}, at: at(func(d *Data) *int64 { return &d.Memory }), def: "0",
				doc: "for a table larger than memory: its samples are in a file, and are shuffled and split by blocks of so many bytes, such as `1GiB`. The order depends on it, so a run keeps it; 0: all samples are in memory"},
			{name: "skip_rows", kind: counting, at: at(func(d *Data) *int { return &d.SkipRows }), def: "0", free: true, inData: true,
				doc: "lines to skip above the header, or above the first row, of each file of text"},
			{name: "header", kind: enum{"auto", "true", "false"}, at: at(func(d *Data) *string { return &d.Header }), def: "auto",
				doc: "whether the first row of CSV names the columns; `auto`: it does if a word in it is above a number, or if its words are all different and none comes again below it"},
			{name: "label", kind: labels{}, at: at(func(d *Data) *Data { return d }), def: "-1",
				doc: "the column of the target, by name or by number from 0; -1 is the last. All other columns are features. With `task: regression` or `multilabel`, a list has several: `[price, rent]`"},
			&dataPositive,
			{name: "ignore", kind: texts{column}, at: at(func(d *Data) *[]string { return &d.Ignore }), def: "[]",
				doc: "columns that are not read, by name or number"},
			{name: "columns", kind: columnList{}, at: at(func(d *Data) *[]Column { return &d.Columns }), free: true, inData: true,
				doc: "how columns are used, by name or number: a kind, or a mapping. `ignore`, `text` and `identifier` leave a column out; `missing: median`, `frequent` or `refuse` says what stands for a missing value; `top: 32` is the number of a category's most frequent values that get a feature each; `order: dmy` is the order of the numbers in a date. `\"*\"` stands for all other columns. A run's config has what was found"},
			{name: "missing", kind: texts{fieldWord{}}, at: at(func(d *Data) *[]string { return &d.Missing }), free: true, inData: true,
				doc: "the words that stand for a missing value, beside the empty field; without the key: `NA`, `N/A`, `null`, `?` and `nan`, in upper or lower case. They replace those, and are compared letter by letter, numbers by their values"},
			{name: "delimiter", kind: text{valid: "one character, such as \";\" or \"\\t\"", pattern: regexp.MustCompile(`^[^"\r\n]$`), tab: true},
				at: at(func(d *Data) *string { return &d.Delimiter }), def: `","`, doc: "the character between columns; it is never guessed. If it is a space, several count as one"},
			{name: "task", kind: tableTask, at: dataTask.at, def: dataTask.def,
				doc: dataTask.doc + "; `multilabel`: each label is 0 or 1, or yes and no, true and false, y and n, on and off"},
			{name: "standardize", kind: boolean{}, at: at(func(d *Data) *bool { return &d.Standardize }), def: "true",
				doc: "scale numbers and the parts of dates to mean 0 and deviation 1, as measured on the training samples; other features stay 0 or 1"},
			{name: "standardize_target", kind: boolean{}, at: at(func(d *Data) *bool { return &d.StandardizeTarget }), def: "true",
				doc: "with `task: regression` and a loss of numbers, such as `mse`, `l1` or `huber`, scale the target likewise, as large numbers need; otherwise it is false. Losses are then of scaled numbers; `rmse`, `mae` and the answers of `predict` are of the numbers themselves"},
		}},
		{"text", "A text as tokens: characters, bytes, or words and parts of words. Each is predicted from those before it. [More on text](text.md).", []*key{
			with(textPath, "the file, packed by gzip or zstd or not; a folder, for all files in it and below it; a list of both; `builtin:shakespeare`, which is inside the binary; or a `.bin` file of nanoGPT or a folder with its `train.bin` and `val.bin`"),
			splitOf("0.9", "fraction of the text to train on; the rest validates; 1: none does. Or parts: `val` and `test` are fractions of the text, whose end is the test part, with the validation part before it"+filesDoc,
				splitKind{number: fraction, files: true, keys: partKeys}),
			&dataTokenizer,
			with(dataField, "for JSON lines (`.jsonl`): the key of each line's text, such as `text`, or of a list of `{role, content}`, such as `messages`: then each line is a conversation, and the tokens of its answers are learnt. [More on conversations](text.md#conversations)"),
			{name: "chat_template", kind: pathText, at: at(func(d *Data) *string { return &d.ChatTemplate }), free: true, // what it makes is part of the data's fingerprint
				doc: "for conversations: the path of a template (Jinja) that turns messages into text, or of a folder with `chat_template.jinja` or `tokenizer_config.json`; without the key, the folder of the `tokenizer.json`; a run keeps its template"},
			&dataContext,
			with(dataTruncate, "for conversations: cut longer ones than `context` off; otherwise they are refused"),
		}},
		{"lines", "The lines of a text as samples of different lengths, in tokens: each token is predicted from those before it in the line, or the class of the line. [More on lines](text.md#lines-samples-of-any-length).", []*key{
			with(textPath, "the file, packed by gzip or zstd or not; a folder; a list of both; or `builtin:shakespeare`, which is inside the binary. Lines without text are left out"),
			splitOf("0.9", dataSplit.doc+filesDoc, splitKind{number: fraction, files: true, keys: classKeys}),
			&dataTokenizer,
			with(dataField, "for JSON lines (`.jsonl`): the key of each line's text, such as `text`"),
			{name: "label", kind: anyText, at: at(func(d *Data) *string { return &d.Label }),
				doc: "for JSON lines: the key of the class of each line, a word or a number. Without it, the next tokens are predicted"},
			&dataPositive,
			{name: "buckets", kind: buckets{}, at: at(func(d *Data) *[]int { return &d.Buckets }), def: "powers",
				doc: "numbers of tokens, such as `[64, 128, 256]`: a sample is padded to the least that has room for it, and each batch has samples of one bucket. `powers`: 16, 32, 64 and so on, up to `context`. Each is planned and compiled once. Padding changes no result"},
			with(dataContext, "tokens in the longest sample, with one that begins it; 0: the largest of `buckets`, or `model.context`, or 256"),
			&dataTruncate,
		}},
		{"tensors", "Tensors from safetensors, `.npz` or `.npy` files; the first axis counts samples.", []*key{
			with(dataPath, "a `.safetensors` or `.npz` file, or a folder of `.npy` files"),
			splitOf("1", dataSplit.doc+filesDoc, splitKind{number: fraction, files: true, keys: classKeys}),
			{name: "input", kind: anyText, at: at(func(d *Data) *string { return &d.Input }), def: "input",
				doc: "name of the tensor of inputs, or of its file in the folder"},
			{name: "target", kind: anyText, at: at(func(d *Data) *string { return &d.Target }), def: "target",
				doc: "name of the tensor of targets, or of its file"},
			{name: "prefix", kind: anyText, at: at(func(d *Data) *string { return &d.Prefix }), doc: "written before both names"},
			&dataTask,
		}},
		{SourceGiven, "Samples that a Go program gives to `berth.Open`. The command has none. [More on own data](extending.md#a-data-set).", []*key{
			&ownSplit, &dataTask,
		}},
	},
})

// sourceKeys are the keys of a registered source in addition to its own. A text named path is
// data.path.
func sourceKeys(e registry.Entry) []*key {
	by := "regression"
	if e.Classes {
		by = "classification"
	}
	keys := []*key{&ownSplit, optional(dataTask, by)}
	fields, err := registry.Fields(e.Keys)
	if err != nil {
		panic("BUG: " + err.Error()) // registry.Add has checked them
	}
	for _, f := range fields {
		path, ok := reflect.ValueOf(e.Keys).FieldByIndex(f.Index).Interface().(string)
		if f.Name != dataPath.name || !ok {
			continue
		}
		k := with(dataPath, f.Doc)
		if path != "" {
			k = optional(*k, textOf(str(path)))
		}
		keys = append(keys, k)
	}
	return keys
}
