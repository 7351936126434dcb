package runs

import "testing"

// A terminal shows neither code marks nor links.
func TestPlain(t *testing.T) {
	if got, want := plain("the [metrics](metrics.md) of `eval`, see [times](a.md#b)"), "the metrics of eval, see times"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
