// Package order says in which order a step runs its stages, and on which devices: by the name
// of a schedule, or by one of the caller's own. [Pipeline] deals stages to devices, counts the
// microbatches in flight, and makes the schedule of a step.
package order
