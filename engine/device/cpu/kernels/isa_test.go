package kernels

import (
	"strings"
	"testing"
)

// atLevels runs a test once for each level that this CPU has.
func atLevels(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for l := Generic; l <= Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			defer Use(Using())
			Use(l)
			test(t)
		})
	}
}

func TestParseLevel(t *testing.T) {
	for l := Generic; l <= Best(); l++ {
		if got, err := ParseISA(l.String()); err != nil || got != l {
			t.Errorf("%v is parsed as %v, %v", l, got, err)
		}
	}
	if got, err := ParseISA(""); err != nil || got != Best() {
		t.Errorf("nothing is parsed as %v, %v", got, err)
	}
	if _, err := ParseISA("sse9"); err == nil || !strings.Contains(err.Error(), "amx, avx512, avx2 or generic") {
		t.Errorf("got %v", err)
	}
}

func TestParseLevelOfAnotherCPU(t *testing.T) {
	if Best() >= AVX512 {
		defer func(l ISA) { best = l }(best)
		best = AVX2
	}
	if _, err := ParseISA("avx512"); err == nil || !strings.Contains(err.Error(), "does not have avx512: take "+Best().String()) {
		t.Errorf("got %v", err)
	}
}
