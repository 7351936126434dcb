package serve

import "fmt"

// converses checks messages that a request has in place of a prompt.
func (q *generateRequest) converses() error {
	switch {
	case q.prompt != "":
		return bad("messages", "the request has a prompt, too: send one of the two")
	case len(q.messages) == 0:
		return bad("messages", "it is empty: send %s", messagesText)
	}
	for i, m := range q.messages {
		if m.Role == "" {
			return bad(fmt.Sprintf("messages[%d]", i), "it has no role: send %s", messagesText)
		}
	}
	return nil
}

// messagesText words the values of messages.
const messagesText = `a list of objects with "role", such as user, and "content", both texts`

// conversationBytes is the memory that messages take, with the prompt that the chat template makes of them.
func (q *generateRequest) conversationBytes() (n int64) {
	for _, m := range q.messages {
		n += int64(3*len(m.Content) + len(m.Role)) // the template is rendered twice
	}
	return n
}
