// Package osfile does with files what systems do each in their own way: it opens
// files that others may rename meanwhile, locks them for one writer or many
// readers, puts one in the place of another that is open, gives one new contents
// whole or not at all, and makes names survive a loss of power.
//
// The functions to know are [Open], [Replace], [Lock], [Rename] and [SyncDir].
package osfile
