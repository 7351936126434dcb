package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestBodies(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), bodies, "bare", "assembly")
}
