// Package registry is the table of the names that may stand in a config: ops, layers,
// losses, metrics, optimizers, schedules and sources of data, each with its keys. Berth's
// own names are in it, and those that a program adds, which have a version.
//
// The keys of a name are stated once, as a struct whose tags say the rest: see [Fields].
// Package configs reads the table, so that the same struct gives the keys in YAML, their
// defaults, checks and errors, the reference page and help. It imports none of the
// packages that fill the table.
//
// A program does not call it. It calls models.RegisterLayer and the like, which put
// a row into the table of their package, and an [Entry] here.
//
// Names are added in init functions. The first [List] or [Find] seals the registry,
// since a table that grew while it is read would be a race.
//
// The types to know are [Entry] and [Field].
//
// # Why does a program's own name live in the table of the built-in ones?
//
// A second way for what programs add would have its own checks, its own messages and its own gaps. A
// registered layer is a row of the table of layer types, a loss, an optimizer, a schedule or a metric a row
// of theirs, and an op a value with a kernel like any other. `engine/registry` only remembers names,
// versions and keys. Package `configs` knows no layers and no ops, so it reads the keys there; nothing else
// would let `trainer plan` check a config of a foreign layer by line.
//
// # Why are keys a struct, and their defaults a value of it?
//
// The function of a layer then reads `k.Beta`, and the compiler checks it. Bounds are tags, since they also
// go into messages and the reference page. A list of fields would say everything twice.
package registry
