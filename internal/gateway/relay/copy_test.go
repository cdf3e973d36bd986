package relay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pieces is a body of some reads, which notes into what room each of them is made.
type pieces struct {
	reads []int
	every time.Duration // a read takes
	ends  bool          // the last read with io.EOF
	waits bool
	rooms []int
}

// Read implements io.Reader.
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

// Close implements io.Closer.
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

// Write implements io.Writer.
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
