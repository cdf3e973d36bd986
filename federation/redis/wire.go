package redis

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/llmgov/llmgov/federation"
)

// What scripts are told and answer. Numbers go as JSON and as decimal digits, both of
// which keep every bit.

// rulesText is what scripts know of the rules.
func rulesText(r federation.Rules) string {
	return fmt.Sprintf("%d %d %d %d", r.Window.Milliseconds(), r.Slots, r.Beat.Milliseconds(), r.TTL.Milliseconds())
}

// beatText is a beat as scripts read it: with lists that are empty, and none that are not there.
func beatText(b *federation.Beat) ([]byte, error) {
	w := *b
	w.Booked = append([]federation.Booked{}, b.Booked...)
	w.Curve = append([]federation.Point{}, b.Curve...)
	w.Demands = append([]federation.Demand{}, b.Demands...)
	w.Under = append([]string{}, b.Under...)
	if b.Copy != nil {
		c := *b.Copy
		c.Booked = append([]federation.Booked{}, c.Booked...)
		if c.Journal != nil {
			j := *c.Journal
			j.Booked = append([]federation.Booked{}, j.Booked...)
			c.Journal = &j
		}
		w.Copy = &c
	}
	return json.Marshal(&w)
}

// reader takes an answer apart. Its first error stays.
type reader struct {
	left []any
	err  error
}

var errAnswer = errors.New("the script's answer is not understood")

func (r *reader) next() any {
	if len(r.left) == 0 {
		r.err = cmp.Or(r.err, errAnswer)
		return nil
	}
	v := r.left[0]
	r.left = r.left[1:]
	return v
}

func (r *reader) int() int64                  { return as[int64](r) }
func (r *reader) text() string                { return as[string](r) }
func (r *reader) amounts() federation.Amounts { return federation.Amounts{r.int(), r.int()} }

func (r *reader) float() float64 {
	f, err := strconv.ParseFloat(r.text(), 64)
	r.err = cmp.Or(r.err, err)
	return f
}

func (r *reader) envelopes() (e [2]federation.Envelope) {
	for k := range e {
		e[k] = federation.Envelope{Level: r.int(), Rate: r.int(), Left: r.int()}
	}
	return e
}

func as[T any](r *reader) T {
	v, ok := r.next().(T)
	if !ok {
		r.err = cmp.Or(r.err, errAnswer)
	}
	return v
}

// readReply reads the answer to a beat.
func readReply(answer any, b *federation.Beat) (federation.Reply, error) {
	list, _ := answer.([]any)
	r := reader{left: list}
	reply := federation.Reply{
		Status: federation.Status(r.text()), Instance: b.Instance, Seq: b.Seq,
		Epoch: r.int(), Now: r.int(), Until: r.int(), Level: r.float(), Grant: r.envelopes(), Used: r.amounts(),
	}
	if digest := r.text(); digest != "" {
		reply.Digest = []byte(digest)
	}
	reply.Format = int(r.int())
	reply.Lost = r.int() == 1
	for len(r.left) > 0 {
		reply.Totals = append(reply.Totals, federation.Demand{Path: r.text(), Rate: r.int()})
	}
	slices.SortFunc(reply.Totals, func(a, b federation.Demand) int { return cmp.Compare(a.Path, b.Path) })
	return reply, r.err
}

// readView reads what a look found, and what the server does when its memory is full.
func readView(answer any) (v federation.View, policy string, err error) {
	list, _ := answer.([]any)
	r := reader{left: list}
	policy = r.text()
	v = federation.View{
		Epoch: r.int(), Now: r.int(), Learning: r.int(), Level: r.float(),
		Limits: r.amounts(), Booked: r.amounts(),
	}
	for len(r.left) > 0 {
		n := reader{left: as[[]any](&r)}
		v.Nodes = append(v.Nodes, federation.NodeView{
			Name: n.text(), Region: n.text(), Address: n.text(), Seen: n.int(), Live: n.int() == 1,
			Booked: n.amounts(), Held: n.amounts(), Waiting: n.amounts(), Grant: n.envelopes(),
		})
		r.err = cmp.Or(r.err, n.err)
	}
	return v, policy, r.err
}
