package extproc

import (
	"errors"
	"hash/maphash"
	"net/http"
	"strconv"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/grants"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// enter takes the call from its headers to its lease. The error is one of the stream.
func (c *call) enter() (*ask.Refusal, error) {
	if f := c.identify(); f != nil {
		return f, nil
	}
	if f := c.readHeaders(); f != nil {
		return f, nil
	}
	if f, err := c.receive(); f != nil || err != nil {
		return f, err
	}
	for {
		f := c.admit()
		if f != admission.Stale {
			return f, nil
		}
		c.Renew(c.s.opt.Admission.Policy())
		if f := c.identify(); f != nil {
			return f, nil
		}
	}
}

// identify finds the tenant, who must be granted the route.
func (c *call) identify() *ask.Refusal {
	if f := c.identifyTenant(); f != nil {
		return f
	}
	if c.at.Route == nil || c.at.Wrong || c.at.Route.ToObjects() {
		return &ask.Refusal{
			Status: http.StatusNotFound, Code: ask.CodeNotFound,
			Message: text.Brief(c.url.Path) + " is no route of inference, which is all that a proxy's calls are governed on. Whoever runs the proxy can leave external processing out on other routes.",
		}
	}
	if grant := c.at.Grant(); !c.Tenant.Routes.Has(grant) {
		return &ask.Refusal{
			Status: http.StatusForbidden, Code: ask.CodeRoute,
			Message: "Tenant " + c.Tenant.Name + " is not granted " + text.Brief(c.url.Path) + ". Whoever runs this gateway can add " + grant.String() + " to its routes.",
		}
	}
	return nil
}

func (c *call) identifyTenant() *ask.Refusal {
	from := &c.s.opt.Tenant
	if from.isKey() {
		return c.Identify(bearer.Credential(c.header), "Send it as \"Authorization: Bearer KEY\", \"x-api-key\" or \"api-key\".")
	}
	name := from.tenant(c.header, c.metadata)
	if name == "" {
		return &ask.Refusal{
			Status: http.StatusUnauthorized, Code: ask.CodeKey, Message: "The proxy does not say which tenant asks: there is no " + from.String() + ".",
		}
	}
	return c.IdentifyTenant(name)
}

// readHeaders reads the caller's hints, and refuses a query that says anything that belongs into the body.
func (c *call) readHeaders() *ask.Refusal {
	if c.url.RawQuery != "" {
		values, err := head.ReadQuery(c.url.RawQuery)
		if err == nil {
			values.Del(dialect.VersionKey)
			err = head.CheckPlain(values)
		}
		if err != nil {
			return describe.Unreadable(err)
		}
	}
	return describe.Hints(c.header, &c.Ask)
}

// receive gets the description of the call: its body, or the metadata about it.
func (c *call) receive() (*ask.Refusal, error) {
	if c.sent != bodyWhole {
		c.info = infoOf(c.metadata)
	}
	switch {
	case c.info != nil && c.sent == bodyInParts:
		return unfit("The proxy sends request bodies in parts. Set request_body_mode to NONE or BUFFERED."), nil
	case c.info != nil:
		return nil, nil
	case c.sent != bodyWhole && c.sent != bodyUnknown:
		return unfit("The proxy describes no request: set request_body_mode to BUFFERED, or forward the metadata of ai_protocol_manager."), nil
	}
	if err := c.wire.send(requestHeaders(nil)); err != nil {
		return nil, err
	}
	m, err := c.wire.next()
	if err != nil {
		return nil, err
	}
	if m.GetRequestBody() == nil {
		return nil, outOfOrder(m)
	}
	c.sent = bodyWhole
	return c.readBody(m.GetRequestBody().GetBody()), nil
}

// readBody reads the head of the body.
func (c *call) readBody(body []byte) *ask.Refusal {
	cfg := c.Policy.Snapshot.Config()
	encoding, known := encoded.Of(c.header["Content-Encoding"])
	switch {
	case !known:
		return describe.Encoded(encoding)
	case encoding != "" && int64(len(body)) <= cfg.MaxBody:
		c.decoded = true
		all, err := encoded.All(c.Tenant.Name, encoding, body, cfg.MaxBody)
		if broken, ok := errors.AsType[*encoded.Broken](err); ok {
			return describe.Garbled(broken)
		}
		body = all
	}
	if int64(len(body)) > cfg.MaxBody {
		return &ask.Refusal{Status: http.StatusRequestEntityTooLarge, Code: ask.CodeTooLarge, Message: "The body is larger than " + strconv.FormatInt(cfg.MaxBody, 10) + " bytes."}
	}
	c.body = body
	c.s.memory.SetBounds(intake.Bounds(cfg.BodyMemory))
	if err := c.s.memory.Ask(c.wire.cut, &c.memory, intake.Ask{Tenant: c.Tenant.Name, Bytes: int64(len(body))}); err != nil {
		return overloaded("Bodies of calls fill the memory that this gateway has for them.")
	}
	if err := c.readHead(); err != nil {
		return describe.Unreadable(err)
	}
	return nil
}

func (c *call) readHead() (err *head.Error) {
	if c.at.Route.Body == dialect.Form {
		c.head, _, err = head.ReadForm(c.body, c.header.Get("Content-Type"))
	} else {
		body := head.Unmarked(c.body)
		c.decoded = c.decoded || len(body) < len(c.body)
		c.body = body
		r := c.s.readers.Get().(*head.Reader)
		h := &head.Head{}
		err = r.Read(h, c.body)
		c.s.readers.Put(r)
		if err == nil {
			c.head = h
		}
	}
	if err != nil {
		return err
	}
	if c.at.Route.Body == dialect.Form {
		c.head.WeighFiles(c.at.Route.Files)
	}
	if c.at.Deployment != "" {
		return c.head.Deploy(c.at.Deployment)
	}
	return nil
}

// forgetBody drops the body once it is not needed any more.
func (c *call) forgetBody() {
	c.memory.Release()
	c.body = nil
}

// admit takes the call from its description to its lease.
func (c *call) admit() *ask.Refusal {
	if f := c.Route(c.model(), c.at.Route.AnyModel); f != nil {
		return f
	}
	if c.head == nil {
		c.describeByMetadata()
	} else if f := c.describe(); f != nil {
		return f
	}
	if f := c.Estimate(); f != nil {
		return f
	}
	return c.Admit()
}

// model is the model that is asked for.
func (c *call) model() string {
	switch {
	case c.head != nil:
		return c.head.Model
	case c.at.Deployment != "":
		return c.at.Deployment
	}
	return c.info.GetModel()
}

// describe describes the call by its body.
func (c *call) describe() *ask.Refusal {
	scope := grants.Scope{Snapshot: c.Policy.Snapshot, Tenant: c.Tenant, Pool: c.Pool.Pool, MayUse: c.Tenant.MayUse}
	if f := scope.Others(c.at.Route.Path, c.head); f != nil {
		return f
	}
	isJSON := c.at.Route.Body == dialect.JSON
	if isJSON {
		if f := c.refers(&scope); f != nil {
			return f
		}
	}
	describe.Ask(&c.Ask, &c.at.Route.Route, c.head, c.Pool.DefaultMaxOutput)
	if isJSON {
		c.Ask.Prompt.Body = c.body
	}
	c.Ask.Free = c.at.Route.Free
	c.Ask.Retry = c.retry()
	return nil
}

// refers weighs the objects to which the body refers. This door does not know their sizes.
func (c *call) refers(scope *grants.Scope) *ask.Refusal {
	if c.at.Route.Dialect != dialect.Responses && !head.MayRefer(c.body) {
		return nil
	}
	found, err := c.head.References()
	if err != nil {
		return describe.Unreadable(err)
	}
	c.head.Weigh(found, func(string) int64 { return 0 })
	if c.head.NamesDeeper() && describe.MayNameDeeper(c.body) {
		return scope.Deeper(c.body)
	}
	return nil
}

// bytesPerToken guesses how long a prompt is of which only the bytes are known. What a tenant's calls take
// corrects it. The bytes of a compressed one say nothing.
const bytesPerToken = 4

// describeByMetadata describes the call by the proxy's metadata, which has neither its text nor the number of its
// answers.
func (c *call) describeByMetadata() {
	r := c.at.Route
	a := &c.Ask
	a.Model = c.model()
	a.Stream = c.info.GetStream().GetValue()
	a.Free = r.Free
	guess := count(c.info.GetEstimatedInputTokens())
	encoding, _ := encoded.Of(c.header["Content-Encoding"])
	if n, err := strconv.ParseInt(c.header.Get("Content-Length"), 10, 64); err == nil && n > 0 && encoding == "" {
		guess = min(n, mostTokens) / bytesPerToken
	}
	a.Prompt = ask.Prompt{Size: tokens.Size{tokens.Text: guess * tokens.Scale}}
	a.Answer = ask.Answer{Bound: count(c.info.GetMaxOutputTokens()), None: !r.Open && r.Bounds == nil, Open: r.Open, Route: r.Path}
	a.Retry = c.retry()
}

// digestSeed keeps callers from making calls that collide.
var digestSeed = maphash.MakeSeed()

// retry is how the call is recognized that was made before. Without its body, calls with one key cannot be told
// apart, so others may run.
func (c *call) retry() ask.Retry {
	r := ask.Retry{Key: c.header.Get("Idempotency-Key"), Attempt: describe.Attempt(c.header)}
	if r.Key != "" && c.body != nil {
		r.Once = true
		r.Digest = maphash.Bytes(digestSeed, c.body) ^ maphash.String(digestSeed, c.url.Path+"?"+c.url.RawQuery)
	}
	return r
}
