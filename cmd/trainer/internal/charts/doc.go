// Package charts draws what runs have measured: losses, metrics and learning
// rates by step or epoch, of one run or several, and a confusion matrix. It has
// the command plot.
//
//	c := charts.Command()
//	c.SetArgs([]string{"runs/digits", "-o", "digits.svg"})
//	err := c.Execute()
//
// [Command] is the command; [SubjectOf] and [Sorted] name the panels for the page of trainer ui. A run is read as a history, which
// keeps each metric as a curve of bounded length; a figure lays panels and a legend out.
package charts
