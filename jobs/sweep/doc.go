// Package sweep decides what a sweep trains: which values each trial has, and what is to be done
// next. It is a few pure functions of the sweep's text, a [configs.Sweep], and of what is known of its trials. It starts
// nothing and remembers nothing: the caller keeps a [Trial] for each. The example shows a whole sweep.
//
// When a sweep is submitted, [Probes] gives the settings with which its config is to be checked, [Most] the steps that it
// can take, and [Checkpoints] how many trials have checkpoints at a time. Then, whenever a trial has reached a rung or
// has failed, [Decide] says which trials may train now, and which checkpoints can go.
//
// Trials have numbers from 1 on. A rung is a step at which trials are compared, counted from 0: see [Rungs]. The last is a
// trial's end, and without halving there is no other.
//
// # Which values has a trial?
//
// [Settings] lists them. Trial i follows from the text and i alone, so a sweep that is made longer keeps its trials. One of
// strategy tpe also follows from the results of the trials up to i - 8 (with halving, at the first rung): it waits for these, and
// others do not matter, though they may be there. So neither timing nor a kill changes a trial.
//
// A combination that comes again, as with a short list, is passed over: trial i is the i-th different one. After a
// thousand repetitions in a row, the first combination of the grid that was not there yet is next.
//
// Real numbers of a range are rounded to 6 digits, of the number or of the range's width if that is smaller.
//
// Strategy halton is the Halton sequence, scrambled as in Owen, "A randomized Halton algorithm in R", 2017. Its points
// leave no gaps, as random ones do, however many there are. Strategy tpe is the tree-structured Parzen estimator of
// Bergstra, Bardenet, Bengio and Kégl, "Algorithms for hyper-parameter optimization", 2011: it draws values near those of good
// trials and takes the one that is farthest from bad ones. Its first ten trials are those of halton.
//
// # Who goes on?
//
// With halving, all trials train for a ninth of their steps, the best third of them for a third, and the best ninth to
// the end. This is successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and
// hyperparameter optimization", 2016) with three rungs. Trials that were added later are halved among themselves.
//
// A trial goes on as soon as it is certain to be among the best of its rung, whatever the others still reach, and it is out as
// soon as the opposite is certain. So who goes on does not depend on who was quicker.
//
// A trial that failed is last, as is one whose value is not finite; equal ones go by number. Nobody waits for a failed trial to be
// tried again.
package sweep
