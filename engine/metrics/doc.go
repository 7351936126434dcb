// Package metrics is the table of metrics: for each, the statistics that devices
// collect over the samples, and the value that follows from them.
//
// A device adds statistics up in the graph of an evaluation. They are exact counts, or
// sums in the order of the samples: the same for every cut of the model, number of
// threads and group of devices. Metrics that rank answers need each answer's score,
// which comes out instead.
//
//	set, err := metrics.Choose(task, []string{"f1", "auc"})
//	…                                   // collect set.Statistics, and scores if set.Scores
//	values, err := set.Values(collected) // by name
//
// The types to know are [Metric], [Statistic], [Task] and [Collected].
package metrics
