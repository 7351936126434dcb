// Package configs reads the YAML that describes a run.
//
// [Load] takes a path or the name of a shipped config and gives a [Config],
// every default filled in; an [Overlay] lays environment variables and flags
// over it. What is wrong is reported all at once, each fault an [*Error] with
// its file, line and key, what was expected and the nearest valid key.
// [Config.YAML] writes a config out again, [Config.Identity] the part of it
// that decides the numbers.
//
// The keys are tables (tables*.go): decoding, defaults, ranges, messages,
// flags, YAML and [Reference], the page docs/config.md, all come from them.
package configs
