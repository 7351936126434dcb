// Package null is the device kind "null": it computes nothing and copies
// nothing, but queues, orders, counts and limits like a real device. Budgets,
// donation rules, leaks, transfers and a whole training run's order can be
// tested on it in no time and no memory, and because nothing can be copied out
// of it, a run that ends well on it has never tried to. Importing the package
// registers the kind.
package null
