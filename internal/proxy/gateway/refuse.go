package gateway

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// refusal is an answer that llmgov gives itself.
type refusal = ask.Refusal

// refusalPatience bounds how long a client may take to read a refusal, which fits into one packet.
const refusalPatience = 5 * time.Second

// mostStrangers is how many refusals of calls without a valid key may be on their way to their
// clients by HTTP/2, where one connection has many. Further ones are cut off without an answer.
const mostStrangers = 256

// refuse answers with a refusal of llmgov's own.
func (c *call) refuse(f *refusal) {
	c.Refused(f)
	c.takeRest()
	c.w.Hurry(refusalPatience)
	if c.Tenant == nil && c.r.ProtoMajor > 1 {
		c.refuseStranger(f)
		return
	}
	if c.Tenant != nil {
		c.showAdmitted()
	}
	writeRefusal(c.w, f, c.dialect(), c.g.admission.Node())
}

// mostTaken is how much of a body servers read that nobody wants before they answer, so that a client that sends first and reads
// then finds the answer.
const mostTaken = 256 << 10

// takeRest reads what is still to come of a body that is not long, as the server would after the answer is written: the client's time to
// read the answer begins when it has sent all. The time for the body is bounded as before.
func (c *call) takeRest() {
	if c.r.ProtoMajor == 1 && c.r.ContentLength <= mostTaken && c.r.Header.Get("Expect") == "" && c.w.Header().Get("Connection") == "" {
		c.rest = io.LimitedReader{R: c.r.Body, N: mostTaken}
		_, _ = io.Copy(io.Discard, &c.rest)
		c.rest.R = nil
	}
}

// refuseStranger waits until the client has taken the refusal: until then it holds memory.
func (c *call) refuseStranger(f *refusal) {
	defer c.g.strangers.Add(-1)
	if c.g.strangers.Add(1) > mostStrangers {
		panic(http.ErrAbortHandler)
	}
	writeRefusal(c.w, f, c.dialect(), c.g.admission.Node())
	_ = c.w.Control.Flush()
}

// writeRefusal sends a refusal in the caller's dialect.
func writeRefusal(w http.ResponseWriter, f *refusal, d *dialect.Dialect, node string) {
	if f.Status == admission.StatusClientClosed {
		w.WriteHeader(f.Status) // the client has gone, or has only stopped sending
		return
	}
	h := w.Header()
	h.Del("Content-Length")
	if f.Status == http.StatusUpgradeRequired {
		h["Upgrade"] = []string{"websocket"} // RFC 9110 has it name a protocol
	}
	body := d.Refuse(h, f, node)
	w.WriteHeader(f.Status)
	_, _ = w.Write(body)
}

// comeAgain says to people when to come back.
func comeAgain(d time.Duration) string {
	return "Please try again in " + strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + "s."
}
