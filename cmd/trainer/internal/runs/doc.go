// Package runs finds what a command works on: the config that it is given, the
// run in a folder, the weights that were trained there.
package runs
