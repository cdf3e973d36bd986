package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// writeLog writes a trace as JSON lines, one event each:
//
//	{"seed":1,"t":12.5,"ev":"admit","tenant":"org/x","id":17,"tokens":1000}
//
// tokens are, of an offer, what the request will really take; of an admit, what
// it may take at most; of a settle, what it took; of a use, what counts against
// the limit from then on for 60 s, or less than nothing: what is given back of
// the request's use before, and leaves the window together with it. A first is the first token of a
// request to a server with a knee. The first
// offer of a request also says input (tokens that count at its start), seconds
// (how long it will run), and worker (it is one of a backlogged tenant's), as
// far as they are not zero. A refuse says retry_after in seconds, and ticket when
// the place is kept.
//
// If upstreams have limits of their own an admit says upstream, and, if these have a cache, of a conversation's input said (before)
// and cached. Of several nodes the first offer also says node, and each round trip to the store is
// an event of its own: {"seed":1,"t":12.5,"ev":"beat","node":"us-east"}.
func writeLog(out io.Writer, p *plan, t *Trace) error {
	w := bufio.NewWriterSize(out, 1<<16)
	names := make([][]byte, len(p.tree.Leaves))
	for i, l := range p.tree.Leaves {
		names[i] = strconv.AppendQuote(nil, l.Path)
	}
	offered := make([]bool, len(t.Requests))
	beats := t.Beats
	recalls := t.Recalls
	var b []byte
	for i := range t.Events {
		e := &t.Events[i]
		for ; len(beats) > 0 && beats[0].At < e.At; beats = beats[1:] {
			b = appendBeat(b[:0], p, beats[0])
			w.Write(b)
		}
		r := &t.Requests[e.Request]
		b = appendStart(b[:0], p, e.At)
		b = append(b, e.Kind.String()...)
		b = append(b, `","tenant":`...)
		b = append(b, names[r.Tenant]...)
		b = append(b, `,"id":`...)
		b = strconv.AppendInt(b, int64(e.Request), 10)
		b = append(b, `,"tokens":`...)
		b = strconv.AppendInt(b, e.Tokens, 10)
		if e.Kind == Offered && !offered[e.Request] {
			offered[e.Request] = true
			b = appendFirst(b, r, p.Nodes)
		}
		if e.Kind == Admitted && len(p.Pool.Upstreams) > 0 {
			b = append(b, `,"upstream":`...)
			b = strconv.AppendQuote(b, p.Pool.Upstreams[t.Upstreams[e.Request]].Name)
		}
		if e.Kind == Admitted && len(recalls) > 0 && recalls[0].Request == e.Request {
			b = append(b, `,"said":`...)
			b = strconv.AppendInt(b, recalls[0].Before, 10)
			b = append(b, `,"cached":`...)
			b = strconv.AppendInt(b, recalls[0].Found, 10)
			recalls = recalls[1:]
		}
		if e.Hint > 0 {
			b = append(b, `,"retry_after":`...)
			b = appendSeconds(b, e.Hint)
		}
		if e.Ticket {
			b = append(b, `,"ticket":true`...)
		}
		b = append(b, "}\n"...)
		w.Write(b)
	}
	for _, x := range beats {
		b = appendBeat(b[:0], p, x)
		w.Write(b)
	}
	if err := w.Flush(); err != nil { // the first error of all
		return fmt.Errorf("simulate: writing the log: %w", err)
	}
	return nil
}

// appendStart begins every line.
func appendStart(b []byte, p *plan, at time.Duration) []byte {
	b = append(b, `{"seed":`...)
	b = strconv.AppendUint(b, p.seed, 10)
	b = append(b, `,"t":`...)
	b = appendSeconds(b, at)
	return append(b, `,"ev":"`...)
}

func appendBeat(b []byte, p *plan, x Told) []byte {
	b = appendStart(b, p, x.At)
	b = append(b, `beat","node":`...)
	b = strconv.AppendQuote(b, p.Nodes[x.Node].Name)
	return append(b, "}\n"...)
}

func appendFirst(b []byte, r *Request, nodes []scenario.Node) []byte {
	if r.Input > 0 {
		b = append(b, `,"input":`...)
		b = strconv.AppendInt(b, r.Input, 10)
	}
	if r.Run > 0 {
		b = append(b, `,"seconds":`...)
		b = appendSeconds(b, r.Run)
	}
	if r.Worker {
		b = append(b, `,"worker":true`...)
	}
	if len(nodes) > 0 {
		b = append(b, `,"node":`...)
		b = strconv.AppendQuote(b, nodes[r.Node].Name)
	}
	return b
}

// appendSeconds writes a time exactly, to the nanosecond.
func appendSeconds(b []byte, d time.Duration) []byte {
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	rest := int64(d % time.Second)
	if rest == 0 {
		return b
	}
	digits := strconv.AppendInt(nil, int64(time.Second)+rest, 10) // a leading 1 keeps the zeros
	end := len(digits)
	for digits[end-1] == '0' {
		end--
	}
	b = append(b, '.')
	return append(b, digits[1:end]...)
}
