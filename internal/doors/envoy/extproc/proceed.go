package extproc

import (
	"net/http"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// keys are the headers in which callers send their keys, and hints those that are for llmgov. They end here.
var (
	keys  = []string{"authorization", "x-api-key", "api-key"}
	hints = []string{"x-llmgov-priority", "x-llmgov-max-wait"}
)

// proceed lets the proxy pass the call on, which is charged from here on.
func (c *call) proceed() error {
	c.EndBy(c.wire.end)
	r := &pb.CommonResponse{HeaderMutation: c.outgoing()}
	message := requestHeaders(r)
	if c.sent == bodyWhole && c.head != nil {
		if body, changed := c.edited(); changed {
			r.BodyMutation = withBody(body)
		}
		message = requestBody(r)
	}
	c.forgetBody()
	c.Send()
	return c.wire.send(message)
}

// outgoing are the changes of the headers that the model server gets.
func (c *call) outgoing() *pb.HeaderMutation {
	set := http.Header{
		"X-Request-Id":    {c.ID},
		"Accept-Encoding": {"identity"}, // usage must be readable as it passes
	}
	c.UpstreamHeaders(set.Set)
	remove := hints
	if c.decoded {
		remove = append(remove[:len(remove):len(remove)], "content-encoding")
	}
	if c.s.opt.Tenant.isKey() {
		remove = append(remove[:len(remove):len(remove)], keys...)
	}
	return mutation(set, remove)
}

// modelServer stands for where the proxy sends calls of a model.
func (c *call) modelServer() string { return c.Pool.Name + " " + c.head.Model }

// edited is the body that the model server gets, if it is another than came.
func (c *call) edited() (body []byte, changed bool) {
	if c.at.Route.Body != dialect.JSON {
		return c.body, c.decoded
	}
	edits, added := describe.Edits(&c.at.Route.Route, c.head, c.Tenant.MaxOutputTokens, c.s.refused.Refused(time.Now(), c.Tenant.Name, c.modelServer()))
	c.added = added
	if added != 0 {
		c.said = upstreams.WordsIn(c.body)
	}
	if real := c.Policy.Snapshot.RealModel(c.head.Model); real != c.head.Model && !c.head.Deployed {
		edits = append(edits, c.head.Rename(real))
	}
	if len(edits) == 0 {
		return c.body, c.decoded
	}
	return splice.Copy(c.body, edits), true
}
