package relay

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// client is one that has a connection.
type client struct {
	http.ResponseWriter
	deadline time.Time // of the connection
	set      int       // how often it was
}

// Write implements http.ResponseWriter.
func (c *client) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (*client) WriteHeader(int) {}

// SetWriteDeadline is found by http.ResponseController.
func (c *client) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	c.set++
	return nil
}

// keeping is a client that knows the deadline of its connection.
type keeping struct{ client }

// WriteDeadline is found by Reset.
func (k *keeping) WriteDeadline() time.Time { return k.deadline }

// A client has its patience, whatever calls were before on the connection, and a quarter or a half more. Its deadline moves only if that
// is needed.
func TestWriter_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &keeping{}
		var w Writer
		for i, call := range []struct {
			after, patience, hurry time.Duration
			set                    int
		}{
			{0, time.Minute, time.Hour, 1},
			{0, time.Minute, time.Hour, 1},
			{15 * time.Second, time.Minute, time.Hour, 1},
			{time.Second, time.Minute, time.Hour, 2},
			{0, time.Minute, 10 * time.Second, 3}, // a refusal
			{0, time.Minute, time.Hour, 4},
			{0, 30 * time.Second, time.Hour, 5}, // another policy
			{time.Hour, 30 * time.Second, time.Hour, 6},
		} {
			time.Sleep(call.after)
			w.Reset(c, call.patience)
			w.Hurry(call.hurry)
			_, _ = w.Write([]byte("a"))
			w.End(time.Now())
			patience := min(call.patience, call.hurry)
			if left := time.Until(c.deadline); c.set != call.set || left < patience*5/4 || left > patience*3/2 {
				t.Errorf("call %d: set %d times, %s are left", i, c.set, left)
			}
		}
	})
}

// A client that does not know of its connection gets a deadline for each call.
func TestWriter_DeadlineOfEachCall(t *testing.T) {
	c := &client{}
	var w Writer
	for range 2 {
		w.Reset(c, time.Minute)
		_, _ = w.Write([]byte("a"))
		w.End(time.Now())
	}
	if c.set != 2 {
		t.Errorf("set %d times", c.set)
	}
}
