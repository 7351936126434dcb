// Package planning chooses the plan of a model on devices: the one that its config asks for, the one
// that the run had before, or with `partition: auto` the one with the shortest predicted step.
// Package partition makes the plans; this one decides which to make, and which keys of the config
// give way where a run goes on with other devices.
//
//	planner := planning.Planner{Config: c, Devices: devices, Specs: specs, Steps: steps, Times: times}
//	choice, err := planner.Choose(ctx, graph)
//
// The types to know are [Planner], [Choice] and [Groups].
package planning
