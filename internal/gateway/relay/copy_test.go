package relay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// pieces is a body of some reads, which notes into what room each of them is made.
type pieces struct {
	reads []int
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
