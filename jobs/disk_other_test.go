//go:build !linux

package jobs_test

import "testing"

func smallDisk(*testing.T) (dir string, ok bool) { return "", false }

func fill(string) error { return nil }

func free(string) error { return nil }
