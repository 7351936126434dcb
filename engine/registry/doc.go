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
package registry
