package streaming

import (
	"context"
	"errors"
	"io"
)

// Cause says how an answer ended. The zero Cause is that of one that has not.
type Cause uint8

// The ends of an answer.
const (
	Completed      Cause = iota + 1 // the proper end was seen
	Truncated                       // upstream ended or broke without one, or without an answer
	UpstreamFailed                  // upstream reported an error in the stream
	IdleTimeout                     // upstream was silent for too long
	ClientGone                      // the reader closed before the end
)

var causeNames = [...]string{"", "completed", "truncated", "upstream_failed", "idle_timeout", "client_gone"}

// String returns the cause as it stands in logs and metrics.
func (c Cause) String() string { return causeNames[c] }

var (
	// ErrIdle is the cause of an interrupt after too long a silence.
	ErrIdle = errors.New("streaming: upstream idle for too long")
	// ErrEmpty is an answer without anything in it, which the upstream has ended properly.
	ErrEmpty = errors.New("streaming: upstream ended the answer before it began")
	// ErrUpstream stands for the error that upstream wrote into the stream itself.
	ErrUpstream = errors.New("streaming: upstream sent an error event")
	// ErrClosed is returned by a Read after Close, and is the error of an answer that was closed
	// before its end.
	ErrClosed = errors.New("streaming: body closed")
)

// Result describes an answer when it has ended.
type Result struct {
	Usage    Usage // as reported last
	Reported bool  // upstream reported usage, also of the answer if there is one
	Deltas   int64 // parts of the answer that came, whether the client read them or not
	Text     int64 // of a whole answer without usage and Deltas: about how many bytes of text came, 1 at the least
	Cause    Cause
	Err      error // that broke the answer off; nil when Completed
	Events   int64 // events with data up to the terminal one, withheld ones included; 0 of a plain answer
	NoInput  bool  // the usage tells of an output alone: of the prompt it tells nothing, or nothing that can be read
}

// InPlace reports whether an error or nothing came in place of an answer: behind nothing that counts as a part of one, and without usage.
func (r Result) InPlace() bool {
	return r.Err == ErrEmpty || r.Cause == UpstreamFailed && r.Text == 0 && r.Deltas == 0 && r.Usage == Usage{Tier: r.Usage.Tier}
}

// verdict judges an end. ended: nothing could have followed; finished: the answer itself is whole;
// failed: it contained an error event. err is upstream's error, or ErrClosed if the reader closed
// first.
func verdict(ended, finished, failed, idle bool, err error) (Cause, error) {
	switch {
	case failed:
		return UpstreamFailed, ErrUpstream
	case ended:
		return Completed, nil
	case err == ErrClosed, errors.Is(err, context.Canceled) && !idle:
		return ClientGone, err
	case finished:
		return Completed, nil
	case idle:
		return IdleTimeout, ErrIdle
	case err == io.EOF:
		return Truncated, io.ErrUnexpectedEOF
	}
	return Truncated, err
}
