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
//
// # Why are metrics counted on devices, and ranked on the host?
//
// A confusion matrix, ranks for `top_N` and sums of errors are metric variables of the evaluation's graph:
// an op gives each answer its cell, and another counts cells in int32. Counts are exact, so they do not
// depend on the cut, on threads or on groups of devices; sums of errors add up in the order of the samples.
// Nothing comes out but the counts at the end, and their memory is part of the plan.
//
// The area under a ROC curve follows from the order of all scores, which no sum has. Scores are pulled back
// and packed: a probability has no sign, so its bits shifted by one order as it does and leave a bit for
// the truth. A score takes 4 bytes and sorts as an integer; gonum's `stat.ROC`, which tests compare with,
// takes some 40 bytes for each.
//
// The table of metrics says for each which statistics it needs and how its value follows; a statistic that
// several need is collected once.
package metrics
