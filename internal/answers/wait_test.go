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
func (w *waited) Wait() { w.times++ }

// Bytes that were searched and not yet read are not waited for, and neither is anything behind the end.
func TestWaitsForNothingThatIsReady(t *testing.T) {
	below := &waited{Reader: strings.NewReader("more than one byte")}
	body := NewBody(below, NewSecrets("a secret of twenty-five B"))
	for {
		body.(*Body).Wait()
		_, err := body.Read(make([]byte, 1))
		if err != nil {
			break
		}
	}
	body.(*Body).Wait()
	if below.times != 2 { // for the text, and for the end
		t.Errorf("%d waits", below.times)
	}
}
