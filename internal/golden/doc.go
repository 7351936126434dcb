// Package golden compares what a test made with a file of the repository.
// Run go test with -update to write the files, then read their difference.
//
// The functions to know are [Check] and [Updating]. Only tests import it.
package golden
