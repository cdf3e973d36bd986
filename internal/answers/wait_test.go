package answers

import (
	"io"
	"strings"
	"testing"
)

// waited counts how often it is waited for.
type waited struct {
	io.Reader
	times int
}

// Close implements io.Closer.
func (*waited) Close() error { return nil }

// Wait is found by Body.
func (w *waited) Wait() bool {
	w.times++
	return true
}

// Bytes that were searched and not yet read are not waited for, and neither is anything behind the end.
func TestWaitsForNothingThatIsReady(t *testing.T) {
	below := &waited{Reader: strings.NewReader("more than one byte")}
	body := NewBody(below, NewSecrets("a secret of twenty-five B"))
	for {
		if !body.(*Body).Wait() {
			t.Error("the body below has something, and this one does not")
		}
		_, err := body.Read(make([]byte, 1))
		if err != nil {
			break
		}
	}
	if !body.(*Body).Wait() {
		t.Error("nothing comes behind the end")
	}
	if below.times != 2 { // for the text, and for the end
		t.Errorf("%d waits", below.times)
	}
}
