// Package passes runs the passes of a plan on small graphs, for the tests of a single pass: a
// test gets what the passes before its own give. [Setup] stands for the options of a plan.
package passes
