// Package datasets opens training data, splits it, and reads it in a seeded
// order. The whole state of reading is a [Cursor] of two numbers.
//
// [Open] turns a [Spec] into a [Dataset]: a training [Part], a validation Part, with a [Division] a
// test Part, and an [Info] that describes a sample. [Part.Read] fills whatever memory it is
// given, from any cursor, at the same cost. A [Loader] reads ahead of the
// consumer, on goroutines of its own, into memory that the consumer owns.
// [OpenInputs] reads samples to predict from; the scaling and vocabulary of the
// training data apply.
//
//	ds, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Seed: 1})
//	dst := ds.Train.Alloc(64)
//	n, err := ds.Train.Read(datasets.Cursor{Epoch: 3, Index: 128}, 64, dst)
//
// Files may be hostile: a malformed file gives an error with its position, never
// a panic, and takes no more memory than its size justifies. Samples take at most
// the file's size, unpacked, or twice that of a csv file; while the kinds of columns are found, their
// different words take at most 512 MiB. The exception is a text
// of more than 65,536 different characters, which takes four bytes for each.
//
// The types to know are [Spec], [Dataset], [Part], [Cursor] and [Loader]. A
// format is one file (digits, mnist, csv, text, tensors) that turns a Spec into
// a table; open.go lists them.
//
// # Why does padding change no bit?
//
// Sequences of different lengths are padded to a few sizes, the buckets, so that a run compiles a few
// graphs and not one for each length. Padding is kept out by construction, and not by a mask in each layer:
// the first op of the graph writes fixed tokens over it, so its bytes are never read; it stands at the end,
// where a causal model's real positions do not see it; means over positions weigh it with zero, and a
// maximum takes the lowest number in its place; its targets are -1, for which the loss and its gradient are
// 0, and with numbers both sides of the loss are selected to be 0. So no kernel but those of the loss knows
// of padding, and every device and every way to run has it. Layers for which this does not hold are
// refused.
//
// # Why are lines tokenized at each start?
//
// The tokens of a text are kept in a file, since it may be larger than memory. Lines are in memory, with
// the place and the class of each, and reading and tokenizing them takes little: 20 MB with `gpt2` take
// 1.05 s of CPU on all cores to the first plan, with `bytes` 0.63 s.
//
// # Why is a bucket's last batch filled up, and not smaller?
//
// A smaller batch for each bucket would double the graphs. Empty samples are padding as a whole, so they
// cost time and change nothing, and every step of an epoch has one size: the cursor stays a number of
// samples. The divisor of a step's loss is the number of its real terms, counted on the device like the
// loss: it is a sum of whole numbers, which no order of additions changes.
//
// # Why must each class have a row in the training part?
//
// Classes are found in the training part, like all that is fitted to data. A class that only
// other parts have would be an answer that the model never learns, and every score would count it. A
// stratified division keeps a row of each class for training; others are refused with the class's name.
//
// # Why are kinds of columns found, and delimiters and tasks not?
//
// Most tables have words and missing values, and a program of twenty lines before each training
// hides mistakes better than a table that is printed. So kinds are found by thresholds that the
// documentation states, shown before training, and kept in the run's config. What has two
// readings, such as a word among numbers, is refused. A wrong delimiter or task trains something,
// and only the numbers tell, so they are given: a table whose reading makes no sense (one column
// with `;` in it, as many classes as rows) is refused, with the key that mends it.
//
// # Why is a table with words read several times?
//
// Kinds are those of the training part, which is drawn once the rows are counted; and a category
// has a cell of four bytes once its words are known. Reading the file three times takes little time
// beside training, and no memory for text that is not needed.
//
// # Why is a table larger than memory shuffled by blocks?
//
// Rows in a random order are each on a page of their own, and a disk reads a page for each. Rows of a
// block share pages, which the system keeps while the block is read. A block's size is asked for, and
// is part of the fingerprint, so that a run goes on alike on a machine with less memory.
//
// # Why is data shipped inside?
//
// A first run must need nothing but Go. The digits, MNIST's test images and tinyshakespeare are 2 MB
// together; `path` points to anything larger.
package datasets
