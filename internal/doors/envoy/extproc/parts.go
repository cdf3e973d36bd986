package extproc

import (
	"errors"
	"io"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/streaming"
)

// pass passes on the parts of an answer, beginning with that of m, and meters them.
func (c *call) pass(m *pb.ProcessingRequest) error {
	if c.Ending.Done { // an error
		c.learn(m.GetResponseBody().GetBody())
		return c.wire.send(responseBody(nil))
	}
	p := &parts{wire: c.wire, edits: c.withholds()}
	p.take(m.GetResponseBody())
	err := p.copy(c.metered(p))
	if err != nil {
		return err
	}
	if p.trailers == nil {
		return p.reply()
	}
	c.trailed(p.trailers)
	return c.wire.send(responseTrailers())
}

// withholds reports whether the client did not ask for the usage chunk. An encoded stream passes as it came, since its head may have gone
// where its parts do not come.
func (c *call) withholds() bool { return c.added&upstreams.AddedUsage != 0 && c.encoding == "" }

// mostError bounds how much of an encoded error is looked at.
const mostError = 64 << 10

// learn notes what of the additions an error refuses: this call cannot be sent once more, but later ones go without it.
func (c *call) learn(said []byte) {
	if c.status >= 400 && c.encoding != "" && c.readable {
		said, _ = encoded.All(c.Tenant.Name, c.encoding, said, mostError)
	}
	if refused := c.added.RefusedBy(said, c.said); c.status >= 400 && refused != 0 {
		c.s.refused.Refuse(time.Now(), c.Tenant.Name, c.modelServer(), refused)
	}
}

// metered meters an answer as the gateway does.
func (c *call) metered(p *parts) io.ReadCloser {
	end := func(res streaming.Result) {
		if p.broken != nil {
			c.brokeOff(res)
			return
		}
		c.Answered(res)
	}
	from := io.ReadCloser(p)
	if c.encoding != "" && c.readable {
		from = encoded.Body(c.encoding, p)
	}
	if !c.events && (c.encoding != "" || streaming.Look(p.rest) != streaming.Events) {
		return streaming.NewWhole(from, streaming.WholeOptions{Text: c.at.Route.Sounds, End: end})
	}
	return streaming.NewBody(from, streaming.Options{WithholdUsage: c.withholds(), First: c.NoteFirst, Progress: c.Progress, End: end})
}

// parts reads an answer that comes in messages. Each is answered, with all that was read of it, when the next one is
// asked for.
type parts struct {
	wire  *wire
	edits bool   // the parts that go out are others than came
	due   bool   // the part that came last is not answered
	rest  []byte // of it, to be read
	out   []byte // that replaces it
	last  bool

	trailers *pb.ProcessingRequest
	broken   error // of the stream
}

// pieces are buffers for copy. Most answers are much shorter.
var pieces = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// copy reads the body that is made of the parts.
func (p *parts) copy(body io.ReadCloser) error {
	buf := pieces.Get().(*[16 << 10]byte)
	defer pieces.Put(buf)
	defer body.Close()
	for {
		n, err := body.Read(buf[:])
		if p.edits {
			p.out = append(p.out, buf[:n]...)
		}
		switch {
		case p.broken != nil:
			return p.broken
		case err == io.EOF, errors.As(err, new(*encoded.Broken)): // the rest passes unread
			return nil
		case err != nil:
			return err
		}
	}
}

func (p *parts) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.last {
			return 0, io.EOF
		}
		p.broken = p.next()
		if p.broken != nil {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// next answers a part, and waits for another.
func (p *parts) next() error {
	if err := p.reply(); err != nil {
		return err
	}
	m, err := p.wire.next()
	switch {
	case err != nil:
		return err
	case m.GetResponseTrailers() != nil:
		p.trailers = m
		p.last = true
	case m.GetResponseBody() != nil:
		p.take(m.GetResponseBody())
	default:
		return outOfOrder(m)
	}
	return nil
}

func (p *parts) take(m *pb.HttpBody) {
	p.due = true
	p.rest = m.GetBody()
	p.last = m.GetEndOfStream()
}

// reply answers the part that came last.
func (p *parts) reply() error {
	if !p.due {
		return nil
	}
	p.due = false
	if !p.edits {
		return p.wire.send(responseBody(nil))
	}
	out := p.out
	p.out = nil
	return p.wire.send(responseBody(&pb.CommonResponse{BodyMutation: withBody(out)}))
}

// Close implements io.Closer. The stream is the call's to end.
func (p *parts) Close() error { return nil }
