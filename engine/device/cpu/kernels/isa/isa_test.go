package isa

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for i := Generic; i <= Best(); i++ {
		if got, err := Parse(i.String()); err != nil || got != i {
			t.Errorf("%v is parsed as %v, %v", i, got, err)
		}
	}
	if got, err := Parse(""); err != nil || got != Best() {
		t.Errorf("nothing is parsed as %v, %v", got, err)
	}
	if _, err := Parse("sse9"); err == nil || !strings.Contains(err.Error(), "amx, avx512, avx2 or generic") {
		t.Errorf("got %v", err)
	}
}

func TestParseOnAnotherCPU(t *testing.T) {
	if _, err := parse("avx512", AVX2); err == nil || !strings.Contains(err.Error(), "does not have avx512: take avx2") {
		t.Errorf("got %v", err)
	}
}
