package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrManyMessages is the error of a list with more messages than may be read.
var ErrManyMessages = errors.New("too many messages")

// MessagesError says what is wrong in a list of messages in JSON.
type MessagesError struct {
	Place string // in the list, such as [0].content; "" is the list itself
	Text  string // what is wrong, and what to send
}

func (e *MessagesError) Error() string { return strings.TrimPrefix(e.Place+": "+e.Text, ": ") }

// MessagesText words the JSON of a list of messages.
const MessagesText = `a list of objects with "role", such as user, and "content", both texts`

// ReadMessages reads a list of messages in JSON: objects with a role and a content, both texts, and nothing
// else. It stops at the first mistake, a [MessagesError], and fails with [ErrManyMessages] behind most
// messages. So it takes memory for the messages that it gives, and for the text alone.
func ReadMessages(text []byte, most int) (list []Message, err error) {
	r := &messageReader{Decoder: json.NewDecoder(bytes.NewReader(text))}
	if t, err := r.token(); err != nil || t != json.Delim('[') {
		return nil, r.unlike(err, t, MessagesText)
	}
	for r.More() {
		if len(list) == most {
			return nil, ErrManyMessages
		}
		r.place = fmt.Sprintf("[%d]", len(list))
		m, err := r.message()
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	r.place = ""
	if _, err := r.token(); err != nil {
		return nil, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, r.wrong("something follows the list: send %s", MessagesText)
	}
	if len(list) == 0 {
		return nil, r.wrong("it is empty: send %s", MessagesText)
	}
	return list, nil
}

// messageReader reads messages, and keeps the place for errors.
type messageReader struct {
	*json.Decoder
	place string
}

// wrong is an error at the place.
func (r *messageReader) wrong(format string, args ...any) error {
	return &MessagesError{r.place, fmt.Sprintf(format, args...)}
}

// token is the next token of JSON.
func (r *messageReader) token() (json.Token, error) {
	t, err := r.Token()
	if err == nil {
		return t, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, r.wrong("the JSON ends too early: send it whole")
	}
	return nil, r.wrong("this is not JSON (byte %d): %v", r.InputOffset(), err)
}

// unlike is err, or the error about a value of another kind than wanted.
func (r *messageReader) unlike(err error, t json.Token, wanted string) error {
	if err != nil {
		return err
	}
	what := "a number"
	switch t := t.(type) {
	case nil:
		what = "null"
	case string:
		what = "a text"
	case bool:
		what = "true or false"
	case json.Delim:
		what = map[json.Delim]string{'[': "a list", '{': "an object"}[t]
	}
	return r.wrong("this is %s: send %s", what, wanted)
}

// message reads an object with a role and a content.
func (r *messageReader) message() (m Message, err error) {
	at := r.place
	if t, err := r.token(); err != nil || t != json.Delim('{') {
		return m, r.unlike(err, t, `an object with "role" and "content", both texts`)
	}
	var hasRole, hasContent bool
	for r.More() {
		t, err := r.token()
		if err != nil {
			return m, err
		}
		key, _ := t.(string) // a key is a string, or it is an error
		r.place = at + "." + shortKey(key)
		to, has := &m.Role, &hasRole
		switch {
		case strings.EqualFold(key, "role"):
		case strings.EqualFold(key, "content"):
			to, has = &m.Content, &hasContent
		default:
			return m, r.wrong("there is no such key: a message has role and content")
		}
		if *has {
			return m, r.wrong("the key is given twice: send it once")
		}
		t, err = r.token()
		text, ok := t.(string)
		if err != nil || !ok {
			return m, r.unlike(err, t, "a text")
		}
		*to, *has = text, true
	}
	switch {
	case m.Role == "":
		r.place = at + ".role"
		return m, r.wrong("it is missing or empty: send one, such as user or assistant")
	case !hasContent:
		r.place = at + ".content"
		return m, r.wrong("it is missing: send a text")
	}
	r.place = at
	_, err = r.token()
	return m, err
}

// shortKey is the beginning of a key.
func shortKey(key string) string {
	const most = 40
	if r := []rune(key[:min(len(key), 4*most+4)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return key
}
