// Package configs reads the YAML that describes a run.
//
// [Load] takes a path or the name of a shipped config and gives a [Config] with
// every default filled in. An [Overlay] holds the values of flags and
// environment variables, which replace the file's. Load reports all mistakes at
// once: each is an [*Error] with its file, line and key, the values expected
// and the nearest valid key. [Config.YAML] writes a config out again;
// [Config.Identity] writes only the keys that decide the computed numbers.
//
// [ParseSweep] and [SweepOfFlags] read a [Sweep]: one config that is trained with many values of its keys.
//
// The keys are declared once: those of layers, losses, optimizers, schedules and of what a
// program adds in the structs that package registry lists, the others in the tables of
// tables*.go. Decoding, defaults, ranges, messages, flags, YAML and [Reference] (the page
// docs/config.md) read them there. The registry is filled by the packages that compute:
// a program that imports package berth has them.
//
// From the bottom: nodes and read (a YAML tree), decoder (positions and mistakes), schema
// (sections and keys), kinds and sections (values), tables and registered (the rows of the
// registry), rules (over several keys), overlay, load.
package configs
