package ui

import (
	"context"
	"strings"
	"testing"
)

// A look that panics is told, and the next one is made all the same.
func TestPulseGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks, told := make(chan struct{}, 2), make(chan string, 1)
	p := pulse{life: ctx, log: func(text string) { told <- text }}
	n := 0
	p.look = func(context.Context) {
		looks <- struct{}{}
		if n++; n == 1 {
			panic("a row of 9 columns")
		}
	}
	end := p.watch()
	<-looks
	if text := <-told; !strings.HasPrefix(text, "BUG: a look failed: a row of 9 columns") {
		t.Error(text)
	}
	<-looks
	end()
	cancel()
	p.wait()
}
