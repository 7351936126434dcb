// Package registry holds the names that programs add to Berth's own: ops, layers,
// losses and more, each with a version and the keys that it takes in a config.
//
// A program does not call it. It calls models.RegisterLayer and the like, which put
// a row into the table that has their built-in ones, and an [Entry] here. Package
// configs reads the entries, so an added name works in YAML as a built-in one does.
//
// Names are added in init functions. The first [List] or [Find] seals the registry,
// since a table that grew while it is read would be a race.
//
// The types to know are [Entry] and [Field].
package registry
