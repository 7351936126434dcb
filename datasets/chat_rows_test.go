package datasets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

const chatTemplate = "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

// TestChatRows checks that each conversation is whole in one sample, with its own positions, and that its answers alone are
// targets.
func TestChatRows(t *testing.T) {
	var text strings.Builder
	want := map[string]string{} // the answers of a conversation
	for i := range 40 {
		question, answer := strings.Repeat("q", i%11), fmt.Sprint("a", i)
		fmt.Fprintf(&text, `{"messages": [{"role": "user", "content": %q}, {"role": "assistant", "content": %q}]}`+"\n", question, answer)
		want[fmt.Sprintf("<user>%s;<assistant>%s;", question, answer)] = answer + ";"
	}
	const context = 90
	s := Spec{Source: "text", Path: write(t, "x.jsonl", text.String()), Split: 1, Seed: 3,
		Text: TextOptions{Context: context, Tokenizer: "bytes", Field: "messages", ChatTemplate: write(t, "x.jinja", chatTemplate)}}
	ds := open(t, s)
	names := []string{}
	for _, f := range ds.Train.Fields() {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"input", "length", "position", "target"}) || !ds.Info.Chats {
		t.Fatal(names, ds.Info)
	}
	if n := ds.Train.Samples(); n > 20 {
		t.Errorf("40 conversations of at most 35 tokens are in %d samples of %d", n, context)
	}
	part := ds.Train.InOrder()
	dst := part.Alloc(part.Len())
	if _, err := part.Read(Cursor{}, part.Len(), dst); err != nil {
		t.Fatal(err)
	}
	input, lengths, positions, targets := shape.View[int32](dst[0]), shape.View[int32](dst[1]), shape.View[int32](dst[2]), shape.View[int32](dst[3])
	terms := int64(0)
	for i := range part.Len() {
		at := i * context
		for j := range context {
			if targets[at+j] != Padding {
				terms++
			}
			if j >= int(lengths[i]) && (targets[at+j] != Padding || positions[at+j] != 0) {
				t.Fatalf("padding %d of sample %d has the target %d and the position %d", j, i, targets[at+j], positions[at+j])
			}
		}
		for from := 0; from < int(lengths[i]); {
			to := from + 1
			for to < int(lengths[i]) && positions[at+to] == positions[at+to-1]+1 {
				to++
			}
			got := tokenizer.Text(ds.Info.Tokenizer, input[at+from:at+to]...) + ";" // the last token is but a target
			learnt := slices.DeleteFunc(slices.Clone(targets[at+from:at+to]), func(id int32) bool { return id == Padding })
			if answer := tokenizer.Text(ds.Info.Tokenizer, learnt...); positions[at+from] != 0 || want[got] != answer {
				t.Errorf("the conversation %q has the answer %q, want %q", got, answer, want[got])
			}
			delete(want, got)
			from = to
		}
	}
	if len(want) > 0 || terms != part.Targets() {
		t.Errorf("%d conversations are in no sample; %d targets, and Targets says %d", len(want), terms, part.Targets())
	}
	if again := open(t, s); again.Info.Fingerprint != ds.Info.Fingerprint {
		t.Error("the same data has two fingerprints")
	}
}
