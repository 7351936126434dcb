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
	n := 0
	p := newPulse(ctx, func(context.Context) bool {
		looks <- struct{}{}
		if n++; n == 1 {
			panic("a row of 9 columns")
		}
		return true
	})
	p.log = func(text string) { told <- text }
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
