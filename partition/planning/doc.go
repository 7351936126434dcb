// Package planning chooses the plan of a model on devices: the one that its config asks for, the one
// that the run had before, or with `partition: auto` the one with the shortest predicted step.
// Package partition makes the plans; this one decides which to make, and which keys of the config
// give way where a run goes on with other devices.
//
//	planner := planning.Planner{Config: c, Devices: devices, Specs: specs, Steps: steps, Times: times}
//	choice, err := planner.Choose(ctx, graph)
//
// The types to know are [Planner], [Choice] and [Groups].
//
// # Why are devices of several kinds timed by default?
//
// Between devices of a kind, flops divide the work well enough: an error is the same for all of them.
// Between kinds the ratio of their speeds decides, and it changes from op to op: no number in a device's
// description can give it. The price is that a plan depends on a measurement. So times are kept, and the
// plan is kept with the run; a run's identity names the blocks of each kind, since they round differently.
package planning
