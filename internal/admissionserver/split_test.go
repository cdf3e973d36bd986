package admissionserver

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/pipenet"
)

// A client that has sent too little to say which server it wants does not keep a server that is closed.
func TestServer_CloseUnsorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipenet.Listen()
		s := New(Options{Log: slog.New(slog.DiscardHandler)})
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		conn := testkit.Must(l.Dial(t.Context(), "", ""))(t)
		testkit.Must(io.WriteString(conn, preface[:2]))(t)
		synctest.Wait()
		began := time.Now()
		s.Close()
		if err := <-served; err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
