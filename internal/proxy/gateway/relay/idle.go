package relay

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/streaming"
)

// idleBody breaks off an answer whose upstream falls silent. (streaming.Body does that by itself,
// since it ends the stream with an event.)
type idleBody struct {
	io.ReadCloser
	patience time.Duration
	timer    *time.Timer
	idle     atomic.Bool
}

// Idle is a body that calls interrupt, and then ends with [streaming.ErrIdle], if nothing comes of it for as long as patience lasts. One that
// has come whole is returned as it is.
func Idle(body io.ReadCloser, patience time.Duration, interrupt func(error)) io.ReadCloser {
	if here, ok := body.(interface{ Whole() bool }); ok && here.Whole() {
		return body
	}
	b := &idleBody{ReadCloser: body, patience: patience}
	b.timer = time.AfterFunc(patience, func() {
		b.idle.Store(true)
		interrupt(streaming.ErrIdle)
	})
	return b
}

// Read implements io.Reader. Only while it waits is the upstream silent: between two reads it is the client that takes its time.
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.patience)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && b.idle.Load() {
		err = streaming.ErrIdle
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.timer.Stop()
	return b.ReadCloser.Close()
}
