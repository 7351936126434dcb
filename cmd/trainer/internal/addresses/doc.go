// Package addresses ends a program that has too little address space to start, with a sentence
// in place of the Go runtime's dump of its stacks. Importing it is enough. It imports next to
// nothing, and so is initialized before packages that take memory: Go initializes packages in
// the order of their paths, each once those that it imports are.
package addresses
