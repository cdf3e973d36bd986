// Package encoded reads bodies that come compressed: of requests, as agents send long conversations, and of answers that nobody asked
// to be.
//
// A body of a request is decoded once all of it is there, so that no slow sender holds a decoder, and as many bodies at once as there are
// processors, of which one sender has half at most. How long it may become is up to whoever reads it: a few kilobytes may stand for gigabytes.
package encoded

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Known are the encodings that are read, for messages.
const Known = "gzip or zstd"

// mostWindow is how far back a zstd frame of a request may refer, which is memory of its decoder, and mostAnswerWindow that of an answer, of
// which there are as many as there are streams (RFC 9659).
const (
	mostWindow       = 32 << 20
	mostAnswerWindow = 8 << 20
)

const (
	// mostRatio is how many times as long as its encoding a body may be, beyond small: JSON is three to twenty times as long. So to
	// decode a body takes the processor for no longer than to receive it.
	mostRatio = 64
	small     = 64 << 10
)

var errRatio = fmt.Errorf("it is more than %d times as long as what was sent", mostRatio)

// Of is the encoding by the values of a Content-Encoding; "" is none. It is not known if it is another one than gzip or zstd, or
// if there are several.
func Of(values []string) (encoding string, known bool) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			switch {
			case name == "", name == "identity":
			case encoding != "":
				return value, false
			default:
				encoding = name
			}
		}
	}
	return encoding, encoding == "" || decoders[encoding] != nil
}

// Broken is the error of a body that is not what its encoding says.
type Broken struct {
	Encoding string
	Cause    error
}

// Error implements error.
func (b *Broken) Error() string {
	return "the body cannot be read as " + b.Encoding + ": " + b.Cause.Error()
}

// Unwrap is for errors.Is.
func (b *Broken) Unwrap() error { return b.Cause }

// places bounds how many bodies are decoded at once, in the order in which they came.
var places = make(chan struct{}, runtime.GOMAXPROCS(0))

// lines are where bodies wait before that, by whose they are: whoever sends many keeps no more than half of the places from others.
var lines = struct {
	sync.Mutex
	of map[string]*line // guarded by Mutex
}{of: map[string]*line{}}

type line struct {
	places chan struct{}
	users  int // guarded by lines.Mutex
}

func enter(whose string) *line {
	lines.Lock()
	l := lines.of[whose]
	if l == nil {
		l = &line{places: make(chan struct{}, max(1, cap(places)/2))}
		lines.of[whose] = l
	}
	l.users++
	lines.Unlock()
	l.places <- struct{}{}
	places <- struct{}{}
	return l
}

func (l *line) leave(whose string) {
	<-places
	<-l.places
	lines.Lock()
	defer lines.Unlock()
	l.users--
	if l.users == 0 {
		delete(lines.of, whose)
	}
}

// Read passes somebody's body to read as it was before it was encoded, and returns the error of read. The reader fails with a [Broken].
// read must not wait for anybody.
func Read(whose, encoding string, body []byte, read func(io.Reader) error) error {
	whose, _, _ = strings.Cut(whose, "/") // a tenant's teams have its places
	defer enter(whose).leave(whose)
	d := decoders[encoding].Get().(decoder)
	defer decoders[encoding].Put(d)
	if err := d.Reset(bytes.NewReader(body)); err != nil {
		return &Broken{encoding, err}
	}
	return read(&reader{d, encoding, mostRatio*int64(len(body)) + small})
}

type reader struct {
	decoder
	encoding string
	left     int64 // of what it may become
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.decoder.Read(p)
	r.left -= int64(n)
	switch {
	case r.left < 0:
		err = &Broken{r.encoding, errRatio}
	case err != nil && err != io.EOF:
		err = &Broken{r.encoding, err}
	}
	return n, err
}

// decoder is one whose memory is used again.
type decoder interface {
	io.Reader
	Reset(io.Reader) error
}

var decoders = map[string]*sync.Pool{
	"gzip":   {New: func() any { return new(gzip.Reader) }},
	"x-gzip": {New: func() any { return new(gzip.Reader) }},
	"zstd":   {New: func() any { return newZstd(mostWindow) }},
}

func newZstd(mostWindow uint64) decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	return d
}

// All is the body as it was, unless that is longer than most: then it is only the beginning of it, and a byte longer.
func All(whose, encoding string, body []byte, most int64) (all []byte, err error) {
	err = Read(whose, encoding, body, func(r io.Reader) (err error) {
		all, err = io.ReadAll(io.LimitReader(r, most+1))
		return err
	})
	return all, err
}
