package tfevents_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir/tfevents"
)

// golden is a version, a start and two scalars, as a program apart wrote them:
// CRC-32C bit by bit, and messages by hand from TensorFlow's event.proto and
// summary.proto.
const golden = `
	1800000000000000 a37f4b22 09 00001040fc54d941 1a0d 627261696e2e4576656e743a32 338d2fe9
	1000000000000000 95fbfe18 09 00001040fc54d941 10ad02 3a02 0801 cb79b93b
	3b00000000000000 1a23ac5c 09 00001040fc54d941 10ad02
		2a2d 0a10 0a09 737465702f6c6f7373 1500002040
		0a19 0a12 737465702f6c6561726e696e675f72617465 156f12833a b4a67dfa`

func records() []byte {
	at := time.UnixMilli(1700000000250)
	b := tfevents.AppendVersion(nil, at)
	b = tfevents.AppendStart(b, at, 301)
	return tfevents.AppendScalars(b, at, 301, []tfevents.Scalar{{Tag: "step/loss", Value: 2.5}, {Tag: "step/learning_rate", Value: 0.001}})
}

func TestRecords(t *testing.T) {
	if got, want := hex.EncodeToString(records()), strings.Join(strings.Fields(golden), ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// However many bytes of a file were written, Whole ends at the end of a record.
func TestWhole(t *testing.T) {
	b, want := records(), 0
	for n := range len(b) + 1 {
		switch n {
		case 40, 72, 147:
			want = n
		}
		if got := tfevents.Whole(b[:n]); got != want {
			t.Errorf("of %d bytes: %d, want %d", n, got, want)
		}
	}
}
