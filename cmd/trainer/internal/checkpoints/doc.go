// Package checkpoints holds the subcommands of trainer checkpoints, a file for
// each. [Command] is their group.
package checkpoints
