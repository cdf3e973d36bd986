package relay

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/streaming"
)

// pieces is a body of some reads, which notes into what room each of them is made.
type pieces struct {
	reads []int
	every time.Duration // a read takes
	ends  bool          // the last read with io.EOF
	waits bool
	rooms []int
}

func (p *pieces) Read(room []byte) (int, error) {
	p.rooms = append(p.rooms, len(room))
	if len(p.reads) == 0 {
		return 0, io.EOF
	}
	n := p.reads[0]
	p.reads = p.reads[1:]
	time.Sleep(p.every)
	if p.ends && len(p.reads) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (*pieces) Close() error { return nil }

// Wait is found by Copy.
func (p *pieces) Wait() bool { return p.waits }

// What has come is read in large pieces. Where there is no telling, only pieces that follow many bytes are large.
func TestCopy_Pieces(t *testing.T) {
	for _, c := range []struct {
		waits bool
		want  []int
	}{
		{true, []int{largePiece, largePiece, largePiece}},
		{false, []int{smallPiece, smallPiece, largePiece}},
	} {
		body := &pieces{reads: []int{manyBytes - 1, manyBytes}, waits: c.waits}
		w := Writer{ResponseWriter: httptest.NewRecorder()}
		w.Reset(w.ResponseWriter, 0)
		err := w.Copy(&http.Response{Body: body, ContentLength: -1})
		if err != io.EOF || !slices.Equal(body.rooms, c.want) {
			t.Errorf("%v, rooms of %d, want %d", err, body.rooms, c.want)
		}
	}
}

// written is a client that notes when each piece reaches it.
type written struct {
	*httptest.ResponseRecorder
	began time.Time
	at    []time.Duration
}

func (w *written) Write(p []byte) (int, error) {
	w.at = append(w.at, time.Since(w.began))
	return len(p), nil
}

// From its second piece on a burst comes with pauses. Nothing else waits: no piece of a slow stream, no large one, none of an answer that has a
// length or cannot tell what has come, and not the end.
func TestCopy_Pauses(t *testing.T) {
	fast := []int{100, 100, 100, 100}
	atOnce := make([]time.Duration, len(fast))
	for name, c := range map[string]struct {
		body   pieces
		length int64
		want   []time.Duration
		end    time.Duration
	}{
		"burst": {
			pieces{reads: fast, waits: true},
			-1,
			[]time.Duration{0, 0, pause, 2 * pause},
			3 * pause,
		},
		"end of a burst": {
			pieces{reads: fast, waits: true, ends: true},
			-1,
			[]time.Duration{0, 0, pause, 2 * pause},
			2 * pause,
		},
		"slow stream": {
			pieces{reads: fast, waits: true, every: burst},
			-1,
			[]time.Duration{burst, 2 * burst, 3 * burst, 4 * burst},
			4 * burst,
		},
		"large pieces": {
			pieces{reads: []int{largeEnough, largeEnough, largeEnough, largeEnough}, waits: true},
			-1,
			atOnce, 0,
		},
		"length": {
			pieces{reads: fast, waits: true},
			400,
			atOnce, 0,
		},
		"cannot tell": {
			pieces{reads: fast},
			-1,
			atOnce, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &written{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
				var w Writer
				w.Reset(client, time.Minute)
				err := w.Copy(&http.Response{Body: &c.body, ContentLength: c.length})
				if end := time.Since(client.began); err != io.EOF || end != c.end || !slices.Equal(client.at, c.want) {
					t.Errorf("%v, pieces at %v, end at %v; want %v, %v", err, client.at, end, c.want, c.end)
				}
			})
		})
	}
}

// silent is a body that says nothing until it is interrupted.
type silent struct {
	interrupted chan error
	whole       bool
}

func (s *silent) Read([]byte) (int, error) { return 0, <-s.interrupted }

func (*silent) Close() error { return nil }

// Whole is found by Idle.
func (s *silent) Whole() bool { return s.whole }

// Of a body that has not come whole the silence ends, whether or not it can tell.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		knows := &silent{interrupted: make(chan error, 1)}
		knowsNot := struct{ io.ReadCloser }{knows}
		for _, body := range []io.ReadCloser{knows, knowsNot} {
			began := time.Now()
			watched := Idle(body, time.Minute, func(err error) { knows.interrupted <- err })
			if _, err := watched.Read(nil); !errors.Is(err, streaming.ErrIdle) || time.Since(began) != time.Minute {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			_ = watched.Close()
		}
	})
}

// A body that has come whole needs no timer.
func TestIdle_Whole(t *testing.T) {
	body := &silent{whole: true}
	if Idle(body, time.Minute, func(error) { t.Error("interrupted") }) != io.ReadCloser(body) {
		t.Error("it is watched")
	}
	other := Idle(io.NopCloser(strings.NewReader("")), time.Minute, func(error) {})
	defer other.Close()
	if _, watched := other.(*idleBody); !watched {
		t.Error("another is not watched")
	}
}

// Silence is counted anew for each read.
func TestIdle_SilentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := make(chan error, 1)
		rest := &silent{interrupted: interrupted}
		body := struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("a"), rest), rest}
		watched := Idle(body, time.Minute, func(err error) { interrupted <- err })
		defer watched.Close()
		_, _ = watched.Read(make([]byte, 1))
		time.Sleep(time.Hour) // with the client
		began := time.Now()
		if _, err := watched.Read(make([]byte, 1)); !errors.Is(err, streaming.ErrIdle) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A client that takes its time between two reads is no silence of the upstream.
func TestIdle_SlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.NewReader("ab")
		watched := Idle(io.NopCloser(text), time.Minute, func(error) { t.Error("interrupted") })
		defer watched.Close()
		for text.Len() > 0 {
			n, err := watched.Read(make([]byte, 1))
			if n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// client is one that has a connection.
type client struct {
	http.ResponseWriter
	deadline time.Time // of the connection
	set      int       // how often it was
}

func (c *client) Write(p []byte) (int, error) { return len(p), nil }

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
