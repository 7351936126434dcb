package configs

import "regexp"

var (
	dataPath  = key{name: "path", kind: pathText, at: at(func(d *Data) *string { return &d.Path }), required: true}
	dataSplit = key{name: "split", kind: fraction, at: at(func(d *Data) *float64 { return &d.Split }), def: "0.8",
		doc: "the fraction trained on, the rest validates; 1: nothing does"}
	dataTask = key{name: "task", kind: task, at: at(func(d *Data) *string { return &d.Task }), def: "classification",
		doc: "what the target is: `classification` of classes, `regression` for numbers"}
)

var dataSection = chosen(&section{
	doc:       "What is trained on. Relative paths start from the working directory. `data: digits` is short for `data: {source: digits}`.",
	pos:       posOf(func(d *Data) *Pos { return &d.Pos }),
	shorthand: "source",
	selector: &key{name: "source",
		at: at(func(d *Data) *string { return &d.Source }), required: true, doc: "where samples come from; it decides the other keys"},
	variants: []variant{
		{"digits", "1,797 handwritten digits of 8×8, which ship inside.", []*key{&dataSplit}},
		{"mnist", "Handwritten digits of 28×28 in IDX files, gzipped or not.", []*key{
			with(dataPath, "a folder with `train-images-idx3-ubyte[.gz]` and its fellows, or `builtin:mnist`, the 10,000 test images, which ship inside"),
			{name: "split", kind: real{min: 0, max: 1}, at: dataSplit.at, def: "0",
				doc: "the fraction of `train-*` trained on; 0: all of it, and `t10k-*` validates, or 0.8 where there is one part only"},
		}},
		{"csv", "A table, a row for each sample.", []*key{
			with(dataPath, "the file, gzipped or not"), &dataSplit,
			{name: "header", kind: enum{"auto", "true", "false"}, at: at(func(d *Data) *string { return &d.Header }), def: "auto",
				doc: "whether the first row names the columns; `auto`: it does if a number stands below a word"},
			{name: "label", kind: column, at: at(func(d *Data) *string { return &d.Label }), def: "-1",
				doc: "the column of the target, by name or by number from 0, -1 the last; all others are features"},
			{name: "ignore", kind: texts{column}, at: at(func(d *Data) *[]string { return &d.Ignore }), def: "[]",
				doc: "columns that are neither, by name or number"},
			{name: "delimiter", kind: text{what: "one character, such as \";\" or \"\\t\"", pattern: regexp.MustCompile(`^[^"\r\n]$`), tab: true},
				at: at(func(d *Data) *string { return &d.Delimiter }), def: `","`, doc: "what stands between columns; a file with others than this is refused, not guessed at"},
			&dataTask,
			{name: "standardize", kind: boolean{}, at: at(func(d *Data) *bool { return &d.Standardize }), def: "true",
				doc: "features to mean 0 and deviation 1, as measured on the training part"},
			{name: "standardize_target", kind: boolean{}, at: at(func(d *Data) *bool { return &d.StandardizeTarget }), def: "false",
				doc: "numbers to predict to mean 0 and deviation 1, as measured on the training part, which large ones need; losses are of what comes of that, `rmse` and the answers of `predict` are of the numbers themselves"},
		}},
		{"text", "Characters of a text, to be predicted from those before.", []*key{
			with(dataPath, "the file, or `builtin:shakespeare`, which ships inside"), optional(dataSplit, "0.9"),
			{name: "context", kind: counting, at: at(func(d *Data) *int { return &d.Context }), def: "0",
				doc: "characters in a window; 0: `model.context`, or 64 where there is none"},
		}},
		{"tensors", "Tensors from safetensors, `.npz` or `.npy` files; the first axis counts samples.", []*key{
			with(dataPath, "a `.safetensors` or `.npz` file, or a folder of `.npy` files"), optional(dataSplit, "1"),
			{name: "input", kind: anyText, at: at(func(d *Data) *string { return &d.Input }), def: "input",
				doc: "the tensor of inputs, or its file in the folder"},
			{name: "target", kind: anyText, at: at(func(d *Data) *string { return &d.Target }), def: "target",
				doc: "the tensor of targets, or its file"},
			{name: "prefix", kind: anyText, at: at(func(d *Data) *string { return &d.Prefix }), doc: "put before both names"},
			&dataTask,
		}},
	},
})
