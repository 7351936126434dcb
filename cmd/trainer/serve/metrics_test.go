package serve

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/exposition"
)

// Labels have the escapes of the text format of Prometheus, and no others.
func TestLabels(t *testing.T) {
	var text strings.Builder
	writeParts(exposition.Page{W: &text, Prefix: "berth_serve_"}, "bytes", "Bytes.", []berth.ServicePart{{}, {Adapter: "a\"b\\c\u200bé"}}, func(p berth.ServicePart) float64 { return 1 })
	if want := `berth_serve_bytes{adapter="a\"b\\c` + "\u200bé" + `"} 1`; !strings.Contains(text.String(), want+"\n") {
		t.Errorf("%s\nwant %s", &text, want)
	}
}
