// Package cut is pass 2 of a plan: it takes an index and [Options], and gives a [Cut], the stage
// of each block and the device of each stage.
//
// [Choose] cuts as the stages are listed (byhand.go), or searches for the fastest cut that fits
// (auto.go). The search knows the blocks' times by flops or by measurement, and their memory
// from package footprint (stagesearch.go). Where devices do not run all blocks, or blocks are pinned,
// it tries several shapes of pipelines (attempts.go). Package search has the search itself.
//
// Errors wrap [ErrStages]: the options do not fit the graph. [CheckEdges] refuses a cut by hand
// whose values go back.
//
// # Why may a number of the update be on another device than its readers?
//
// An op without a kernel on one kind would take its whole block elsewhere. The learning rate, the step's
// count and the norm of the gradients have few bytes, and the update is cut into levels that wait for each
// other already. Gradients and weights stay.
package cut
