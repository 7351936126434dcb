// Package columns turns the rows of a table, as text, into numbers for a model.
//
// A [Finder] looks at the training part of a table and finds the kind of each
// column: a number, a boolean, a category, a date, or text and identifiers, which
// are left out. The result is a [Fitted]: the columns that go in, and what was
// learnt about each, such as its median and its most frequent values. A Fitted
// belongs to a model, is JSON in its checkpoints, and is the only code that
// turns a row into features: in training, evaluation, prediction and serving.
//
//	f, err := columns.NewFinder([]string{"age", "plan"}, columns.Options{}, 0)
//	for each row of the training part { err := f.Add(fields, places) }
//	fitted, err := f.Found()
//	cells := make([]int32, len(fitted.Columns)) // of each row, by fitted.Cell
//	err = f.Measure(…)                           // medians, from the cells
//	features := make([]float32, fitted.Features())
//	fitted.Expand(cells, features)
//
// A row is fields of text, whatever file or request it is from. A cell is a field
// in four bytes, so that a table takes little memory; a cell becomes one feature
// or several when a sample is read.
//
// The types to know are [Options], [Finder], [Fitted], [Column] and [Description].
package columns
