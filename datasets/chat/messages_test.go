package chat_test

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/chat"
)

// TestReadMessages checks that messages are read whole, and that a mistake is told with its place.
func TestReadMessages(t *testing.T) {
	want := []chat.Message{{Role: "system", Content: ""}, {Role: "user", Content: "a\n[{"}}
	got, err := chat.ReadMessages([]byte(` [ {"role": "system", "content": ""}, {"Content": "a\n[{", "role": "user"} ] `), 2)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, x := range []struct{ text, place, want string }{
		{`{"role": "user"}`, "", "this is an object: send a list of objects"},
		{`[]`, "", "it is empty"},
		{`[3]`, "[0]", "this is a number: send an object"},
		{`[{"role": "user", "content": "a"}, null]`, "[1]", "this is null: send an object"},
		{`[{}]`, "[0].role", "missing or empty"},
		{`[{"role": "", "content": "a"}]`, "[0].role", "missing or empty"},
		{`[{"role": null, "content": "a"}]`, "[0].role", "this is null: send a text"},
		{`[{"role": "user"}]`, "[0].content", "it is missing: send a text"},
		{`[{"role": "user", "content": "a"}, {"role": "user", "content": null}]`, "[1].content", "this is null: send a text"},
		{`[{"role": "user", "content": 3}]`, "[0].content", "this is a number: send a text"},
		{`[{"role": "user", "content": [{"type": "text"}]}]`, "[0].content", "this is a list: send a text"},
		{`[{"role": "user", "text": "hello"}]`, "[0].text", "no such key: a message has role and content"},
		{`[{"role": "user", "content": "a", "content": "b"}]`, "[0].content", "given twice"},
		{`[{"role": "user", "content": "a"}`, "", "ends too early"},
		{`[{"role": "user", "content": "a`, "[0].content", "ends too early"},
		{`[{"role": user}]`, "[0].role", "this is not JSON (byte"},
		{`[{"role": "user", "content": "a"}] and more`, "", "something follows"},
	} {
		_, err := chat.ReadMessages([]byte(x.text), 10)
		wrong, ok := errors.AsType[*chat.MessagesError](err)
		if !ok || wrong.Place != x.place || !strings.Contains(wrong.Text, x.want) {
			t.Errorf("%s: %v, want %s: %s", x.text, err, x.place, x.want)
		}
	}
}

// TestReadMessagesStops checks that a list of many messages takes no memory beyond the bound.
func TestReadMessagesStops(t *testing.T) {
	for _, x := range []struct {
		one  string
		want error
	}{{`{},`, nil}, {`{"role":"a","content":""},`, chat.ErrManyMessages}} {
		text := []byte("[" + strings.Repeat(x.one, 4<<20/len(x.one)) + x.one[:len(x.one)-1] + "]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := chat.ReadMessages(text, 1000)
		runtime.ReadMemStats(&after)
		if err == nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v", x.one, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
			t.Errorf("%s: %d bytes", x.one, n)
		}
	}
}
