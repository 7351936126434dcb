package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// template is a chat template for tokens that are bytes: a question and its answer are a line.
const template = "{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }} A:{% else %} {{ m.content }}\n{% endif %}{% endfor %}"

// people are those that the conversations are about.
var people = []struct{ name, play, home, is string }{
	{"Romeo", "Romeo and Juliet", "Verona", "a Montague"},
	{"Juliet", "Romeo and Juliet", "Verona", "a Capulet"},
	{"Tybalt", "Romeo and Juliet", "Verona", "a cousin of Juliet"},
	{"Mercutio", "Romeo and Juliet", "Verona", "a friend of Romeo"},
	{"Coriolanus", "Coriolanus", "Rome", "a general"},
	{"Menenius", "Coriolanus", "Rome", "a senator"},
	{"Aufidius", "Coriolanus", "Antium", "a general"},
	{"Prospero", "The Tempest", "an island", "a duke"},
	{"Miranda", "The Tempest", "an island", "a duke's daughter"},
	{"Ariel", "The Tempest", "an island", "a spirit"},
	{"Petruchio", "The Taming of the Shrew", "Verona", "a suitor"},
	{"Katharina", "The Taming of the Shrew", "Padua", "a merchant's daughter"},
	{"Leontes", "The Winter's Tale", "Sicilia", "a king"},
	{"Polixenes", "The Winter's Tale", "Bohemia", "a king"},
	{"Angelo", "Measure for Measure", "Vienna", "a deputy"},
	{"Isabella", "Measure for Measure", "Vienna", "a novice"},
}

// asked are the ways to ask about someone, by the answer's kind.
var asked = map[string][]string{
	"play": {"In which play is %s?", "Which play has %s?", "Where do I read of %s?", "Name the play of %s.", "I look for %s. Which play?"},
	"home": {"Where does %s live?", "Where is the home of %s?", "Which place is home to %s?", "Name the home of %s.", "I look for %s. Which place?"},
	"is":   {"Who is %s?", "What is %s?", "Tell me who %s is.", "Who is that, %s?", "I look for %s. Who is that?"},
}

// chats is a conversation of a question and its answer for each person and way to ask.
func chats() []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var b bytes.Buffer
	for _, p := range people {
		answers := map[string]string{"play": p.play, "home": p.home, "is": p.is}
		for _, kind := range []string{"play", "home", "is"} {
			for _, way := range asked[kind] {
				line, err := json.Marshal(map[string][]message{"messages": {{"user", fmt.Sprintf(way, p.name)}, {"assistant", answers[kind] + "."}}})
				if err != nil {
					panic("BUG: " + err.Error()) // texts have a form in JSON
				}
				b.Write(append(line, '\n'))
			}
		}
	}
	return b.Bytes()
}
