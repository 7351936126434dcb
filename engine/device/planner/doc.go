// Package planner turns a segment's graph into steps over planned memory, for
// devices of any kind: it knows sizes and offsets, and no memory.
//
// The graph is cut into clusters (package fuse), one step each. Each value gets
// its storage: the caller's buffer of an input or output, or a temporary in the
// scratch region of a launch. Steps that overwrite a donated input come after its
// readers. Temporaries share bytes where they do not live at once. A step of a branch has
// guards, numbers in memory that say whether it is skipped: they live until it has run.
//
// The files use each other downwards: plan; order, inplace, layout, uses; shelf; storage.
//
// The types to know are [Plan], [Step] and [Storage].
package planner
