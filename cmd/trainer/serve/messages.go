package serve

import (
	"encoding/json"
	"errors"

	"github.com/berth-ml/berth/datasets/chat"
)

// readMessages reads the messages that a request has in place of a prompt: at most as many as the model reads
// tokens at once, which each message has one of.
func (q *generateRequest) readMessages(most int64) error {
	if q.prompt != "" {
		return bad("messages", "the request has a prompt, too: send one of the two")
	}
	list, err := chat.ReadMessages(q.list, int(most))
	if errors.Is(err, chat.ErrManyMessages) {
		return beyond("messages", "there are more than %d, and the model reads as many tokens at once: leave the first ones out", most)
	}
	if wrong, ok := errors.AsType[*chat.MessagesError](err); ok {
		return bad("messages"+wrong.Place, "%s", wrong.Text)
	}
	q.messages, q.list = list, nil
	return err
}

// given reports whether the request has a value for a key: null is none.
func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// messageBytes is the memory of a message beside its text: the values that the chat template has for it, and
// the text that it puts around it.
const messageBytes = 1 << 10

// conversationBytes is the memory that messages take, with the prompt that the chat template makes of them.
func (q *generateRequest) conversationBytes() (n int64) {
	for _, m := range q.messages {
		n += messageBytes + int64(3*len(m.Content)+3*len(m.Role)) // the template is rendered twice
	}
	return n
}
