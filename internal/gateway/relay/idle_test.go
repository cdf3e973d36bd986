package relay

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/streaming"
)

// silent is a body that says nothing until it is interrupted.
type silent struct {
	interrupted chan error
	whole       bool
}

// Read implements io.Reader.
func (s *silent) Read([]byte) (int, error) { return 0, <-s.interrupted }

// Close implements io.Closer.
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
