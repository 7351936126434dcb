// Package runtest opens and trains small runs for tests, through the public face.
package runtest
