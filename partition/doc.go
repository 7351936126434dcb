// Package partition cuts a training graph into stages for devices: a plan with
// the placement of every value, every transfer and the memory of every device,
// before anything is allocated. It is a pure function: the same graph, specs
// and options give the same plan.
//
//	plan, err := partition.New(graph, partition.PlanOptions{Devices: specs, Microbatches: 4})
//	launches, err := plan.Launches(partition.StepOptions{Microbatches: 4})
//
// A stage is a sequence of blocks (top-level layers) on one device. Its nodes are cut into
// segments, the unit that a device compiles and the executor leases. A segment's run is a
// launch: in each microbatch, or in the update once per step.
//
// # The passes
//
// Each has a folder. [New] runs them (new.go), and keeps their results in the struct decided
// (plan.go), in this order:
//
//	  folder     takes                    gives        what it does
//	0 pieces     graph                    graph        cuts blocks at pinned ops
//	0 recompute  graph                    graph        adds nodes that compute values a second time
//	0 parts      graph                    graph        cuts nodes over samples or channels, where no plan fits
//	1 nodes      graph                    Index        finds who reads what, and what the update must wait for
//	2 cut        Index, options           Cut          cuts the model: gives each block a stage, each stage a device
//	3 place      Index, Cut               Placement    gives every node and variable a stage
//	4 divide     Index, Placement         graph        divides the update: among replicas, or into ranges of a tensor
//	5 segment    Index, Placement, Grain  []Segment    groups a stage's nodes into what is compiled and launched as one
//	6 step       segments, schedule       []Launch     lists a step's launches in the order in which they are queued
//	7 forecast   launches                 []Forecast   finds how much memory each device needs, and the bytes that move
//
// A forecast is of memory. The time of a step is a [Prediction], which package simulate makes.
//
// Where memory is short, passes 5 to 7 run again for finer grains of segments, pass 4 too for updates in
// ranges (grains.go), and all of them with values recomputed; where none fits, with nodes in parts (new.go). Of these plans the one
// wins that lacks the fewest bytes, then the one with the shortest step. At last New checks that plan (refusals in new.go): a
// device must have the memory (memory.go).
//
// Some packages serve several passes. Package order deals stages to devices and makes
// schedules; speed has the times of segments and copies; footprint bounds the memory of
// blocks as one stage, for the search in pass 2. Package search is that search, on numbers
// alone: cut/stagesearch.go turns a graph's blocks into these numbers, and its result into a cut.
// Package simulate predicts the course of a plan's step. Package nets has the graphs of these
// packages' tests.
//
// An internal error is a panic of the package that is its pass. No pass imports this package. Two look
// at later ones to judge by: recompute uses nodes, and the search in cut uses place and segment.
// boundaries_test.go lists who may import whom.
//
// Above the passes are [Derive], which plans other graphs of the model into a plan's stages;
// [Candidates], plans for each number of stages and replicas; and [Atoms], a plan of the
// smallest parts, to time them.
//
// Three places choose. New, with fixed options, chooses the grain of segments (grains.go).
// [Choose] takes the fastest of some candidates. Package planning, above both, chooses the
// options that a config and a run ask for. Package costs keeps measured times, and package
// picture draws a plan.
//
// The types to know are [Plan], [Stage], [Segment], [Launch] and [Forecast].
//
// # Why are segments cut finer only where memory is short?
//
// A launch needs all its tensors at once, so a smaller launch gets by with less. Cut at blocks, a step of a
// GPT needs two weights and a few activations where the whole phase needs them all; what a later launch
// needs can be elsewhere meanwhile. But values inside a segment share memory and are fused, and values
// between segments are not. So the cut is the coarsest one that helps, and without a limit there is none.
//
// A finer cut takes the nodes of a phase in their order and cuts that list. Any such cut runs the same
// nodes in the same order, so it cannot change a bit or add a dependency. The forecast of each cut replays
// the launches in the order in which they will be queued, with the choice of victims that the run will
// make. So the plan's peak, and the bytes that it says will move, are those of the run.
//
// # Why is a plan of many replicas not made once for one of them?
//
// All that is alike is made once: the cut, the places, the segments, and the time of a segment. What is left
// differs. Replicas add each other's sums by a tree, so that the peaks of 256 replicas of a GPT with 12 layers
// lie between 79 and 97 MiB, and package step lists the launches of each. Nothing is kept for pairs of replicas.
// So time and memory grow with the launches: trainer plan takes 0.5 s of CPU and 120 MB for 256 microbatches of that
// GPT on 16 replicas, 0.7 s and 140 MB on 64, and 1.4 s and 220 MB on 256. For the 4,096 microbatches that a
// step may have, 256 replicas take 8 to 12 s and 1.2 GB: these are 146,000 launches with 3.8 million tensors.
//
// A rank of many lists its own part alone, and what it must know of others (step/part.go). Of more than 16 ranks it also forecasts
// its own memory alone, unless the memory of some device is short: then the plan would depend on it. To find its
// part, and to predict the step of all ranks, it goes through all launches, and keeps none: with 4,096 ranks, two million of them
// take half a second.
//
// A quarter of the time for 256 replicas is in estimates of scratch, since each device is asked. It is not
// lost: a device keeps what it has planned for an estimate, and compiles from that when the run begins.
//
// # Why does a value between kinds take two copies, and not one?
//
// A driver copies fastest from memory that it has registered. If that were the other device's own memory,
// each kind would have to know the other's. So host memory of the device that cannot address the host lies
// between. One block serves a value in each step.
package partition
