package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/streaming"
)

// verdict is the state of an upstream as its answer, or the absence of one, shows it.
func (c *call) verdict(resp *http.Response, err error) upstreams.Outcome {
	t := c.try
	c.tries.said = upstreams.Told{}
	c.tries.left = upstreams.Remains{}
	c.tries.wait = 0
	c.tries.why = reasonOf(err)
	switch {
	case err != nil && (c.Gone() || c.Cut()):
		return upstreams.Abandoned
	case err != nil && c.stale(err):
		return upstreams.Stale
	case err != nil:
		return upstreams.Silent
	}
	t.Sent.Store(true)
	if resp.StatusCode/100 == 2 && !c.route.ToObjects() && !isEncoded(resp.Header) {
		c.lookInto(resp)
	}
	t.status = resp.StatusCode
	c.tries.why = text.Brief(resp.Status)
	if t.cut {
		c.tries.why = reasonOf(c.begun.Cut())
		return upstreams.Silent
	}
	t.Refused = t.status/100 != 2 || t.noAnswer
	c.tries.said = t.up.Provider.Limits.Read(resp.Header)
	if now := time.Now(); t.status == http.StatusTooManyRequests || c.pool.set.Members[t.index].Due(now, c.realModel()) {
		c.tries.left = t.up.Provider.Limits.Remains(resp.Header, now)
	}
	if deployment := t.up.Provider.Limits.Passed(resp.Header); deployment != "" && t.status/100 == 2 {
		c.passedOn(deployment)
	}
	switch {
	case admission.Fails(t.status):
		body := keepError(resp)
		if c.refusesAddition(body) {
			return upstreams.Amended
		}
		return c.classifyError(resp, body)
	case t.status == http.StatusSwitchingProtocols: // a session, or stored.ErrUnreadable
		return upstreams.Served
	}
	lacks := t.status/100 == 4 && c.judgeRefusal(resp)
	if t.amended != 0 && t.status/100 == 2 && t.up.Additions.Refuse(time.Now(), c.Tenant.Name, t.model, t.without) {
		c.g.log.Info("upstream refuses what is added to calls, so those of the tenant go without it until the next reload, or for a day",
			"tenant", c.Tenant.Name, "pool", c.pool.Name, "upstream", t.up.Name, "model", text.Brief(t.model), "usage_of_streams", t.without&upstreams.AddedUsage != 0, "max_completion_tokens", t.without&upstreams.AddedBound != 0)
	}
	switch {
	case t.status >= 400 && c.refusesAddition(c.begins(resp)):
		return upstreams.Amended
	case t.account, t.withheld(resp) != nil:
		return upstreams.Failed
	case lacks:
		return upstreams.Lacking
	}
	return upstreams.Served
}

// reasonOf is an error of the network without the addresses in it; "" for nil.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return text.Brief(err.Error())
}

// accountCodes are those of errors that say that an account is not served, whatever it asks: it has no credit, or calls from where it
// may not. No caller can provoke them.
var accountCodes = map[string]bool{
	"insufficient_quota": true, "billing_hard_limit_reached": true, "billing_not_active": true, "account_deactivated": true,
	"exceeded_current_quota_error": true, "Arrearage": true, "insufficient_balance": true, "unsupported_country_region_territory": true,
	"organization_restricted": true, "credit_limit": true, "billing_error": true, "AccountDisabled": true, "QuotaExceeded": true, "NOT_ENOUGH_BALANCE": true,
	"BILLING_DISABLED": true, "SERVICE_DISABLED": true, "CONSUMER_SUSPENDED": true, // Google's
	"insufficient_user_quota": true, "pre_consume_token_quota_failed": true, // One API's and New API's
	"1113": true, "30001": true, // of an empty balance, Zhipu's and SiliconFlow's
}

// modelCodes are those of errors about a model that an upstream does not have.
var modelCodes = map[string]bool{
	"model_not_found": true, "DeploymentNotFound": true, "model_not_available": true, "model_not_supported": true, "invalid_model": true, "1211": true,
}

// keyCode is Google's, whose status of a key that it does not know is 400.
const keyCode = "API_KEY_INVALID"

// hasCode reports whether an error has one of some codes, where servers put them.
func hasCode(detail gjson.Result, codes map[string]bool) bool {
	return slices.ContainsFunc([]string{"code", "type", "reason", "details.0.reason"}, func(path string) bool { return codes[detail.Get(path).String()] })
}

// What providers say of the same, under codes of their own or those of bad requests: noCredit of their accounts, badKey of keys, noModel of
// models under any status, and missing under 404.
var (
	noCredit = regexp.MustCompile(`^(?i)(your credit balance is too low|key limit exceeded|your (newly created )?team .*credits|account \S+ is suspended|` +
		`access denied due to virtual network|(sorry, )?your account (balance|is not active)|(insufficient|not enough) (account )?(balance|credit|fund|quota)|` +
		`credit limit exceeded|this organization has been disabled|you have reached your specified api usage limits|user location is not supported|` +
		`your account does not have access to claude|this api method requires billing|permission denied: consumer|[\w ]{3,40} api has not been used in project)`)
	badKey  = regexp.MustCompile(`^(?i)((invalid|incorrect) api key|api key (not valid|expired|not found))`)
	noModel = regexp.MustCompile(`^(?i)((\S+: )?invalid model\b|model not exist|the (requested|provided) model .*(invalid|not supported)|\S+ is not a valid model|` +
		`the model \S+ does not exist|project \S+ does not have access to model|模型不存在)`)
	missing = regexp.MustCompile(`^(?i)(.{0,30}\bmodels?\b|no endpoints found|(resource )?not found\.?$|invalid url\b)`)
)

// judgeRefusal notes what a status of 400 and above says of the upstream, and reports whether it lacks what the call names.
func (c *call) judgeRefusal(resp *http.Response) (lacks bool) {
	t := c.try
	searched, _ := resp.Body.(*answers.Body)
	body := c.begins(resp)
	detail := detailOf(body)
	said := messageOf(body)
	t.leaked = searched != nil && searched.Found()
	t.denied = detail.Get("details.0.reason").Str == keyCode || badKey.MatchString(said)
	t.account = hasCode(detail, accountCodes) || noCredit.MatchString(said)
	return hasCode(detail, modelCodes) || noModel.MatchString(said) || lacksAll(t.status, body, said)
}

// lacksAll reports whether a refusal says that there is no such route, or no API at all, but a server of something else or what stands
// before it. What a caller asks for in a call has no part in that.
func lacksAll(status int, body []byte, said string) bool {
	switch status {
	case http.StatusMethodNotAllowed, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUnavailableForLegalReasons:
		return true
	case http.StatusNotFound:
		return !gjson.ValidBytes(body) || missing.MatchString(said)
	}
	return status == http.StatusForbidden && !gjson.ValidBytes(body)
}

// refusesAddition reports whether a refusal is about what the caller did not send. It is left out of the upstream's later calls only if
// this one is then served.
func (c *call) refusesAddition(body []byte) bool {
	left := c.additions() &^ c.try.without
	if left != 0 {
		came := c.variant(&try{model: c.named.name, without: c.additions()})
		c.tries.amend = left.RefusedBy(body, upstreams.WordsIn(came...))
	}
	return c.tries.amend != 0
}

// lookInto looks into an answer. A stream is labelled as one, and an error gets the status that it should have had. A stream that is
// labelled is looked into, and so begins for its client with its first event, only where another upstream could have the call.
func (c *call) lookInto(resp *http.Response) {
	labelled := isEventStream(resp.Header)
	if labelled && c.tries.may&^c.tries.been == 0 {
		return
	}
	beginning := c.begins(resp)
	nature := streaming.Look(beginning)
	var failure []byte
	stream := labelled || nature == streaming.Events
	if stream {
		opening := streaming.Open(beginning, c.begun.Ended())
		failure = opening.Failure
		c.try.noAnswer = opening.Empty
	}
	if gjson.ValidBytes(failure) {
		beginning = bytes.Clone(failure)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(beginning))
		resp.ContentLength = int64(len(beginning))
		resp.Header.Del("Content-Length")
		resp.Header["Content-Type"] = contentJSON
		nature = streaming.Wrong
	}
	cut := c.begun.Cut()
	switch {
	case cut != nil && failure == nil && c.tries.ctx.Err() != nil: // the call ended, or was silent for too long; as its answer passes, it is said
		c.try.noAnswer = false
	case cut != nil && (c.try.noAnswer || !stream):
		c.try.cut = true
		c.try.noAnswer = false
	case failure != nil && nature != streaming.Wrong:
		c.try.noAnswer = true // an error that is no JSON
	case nature == streaming.Wrong:
		resp.StatusCode = statusOf(detailOf(beginning))
		resp.Status = "error under " + resp.Status
	case nature == streaming.Empty:
		c.try.noAnswer = true
	case labelled && !bytes.HasPrefix(bytes.TrimSpace(beginning), []byte("<")):
	case c.route.Sounds: // which are sent as they are, texts of them, too
		c.try.noAnswer = nature == streaming.Foreign && kindOf(resp.Header) == "text/html"
	case nature == streaming.Events:
		resp.Header["Content-Type"] = eventStream
	default:
		c.try.noAnswer = nature == streaming.Foreign || c.begun.Whole() && !gjson.ValidBytes(head.Unmarked(beginning))
	}
}

// detailOf is the error of an answer, where servers put it: in a choice if there is one, and all of it if they have no place for one.
func detailOf(body []byte) gjson.Result {
	for _, path := range [...]string{"error", "0.error", "choices.0.error"} {
		if detail := gjson.GetBytes(body, path); detail.IsObject() {
			return detail
		}
	}
	return gjson.ParseBytes(body)
}

// statusOf is the status that an error under status 200 should have had.
func statusOf(detail gjson.Result) int {
	for _, name := range [...]string{"code", "status", "status_code"} {
		if code := detail.Get(name).Int(); code >= 400 && code < 600 {
			return int(code)
		}
	}
	switch detail.Get("type").Str {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "overloaded_error":
		return statusOverloaded
	}
	return http.StatusBadGateway
}

// bounded is a body that is broken off if its upstream falls silent.
func (c *call) bounded(body io.ReadCloser) io.ReadCloser {
	return relay.Idle(body, c.world.Snapshot.Config().Timeouts.StreamIdle, c.tries.interrupt)
}

// begins reads the beginning of an answer, to be read again.
func (c *call) begins(resp *http.Response) []byte {
	if resp.Body != &c.begun {
		c.begun.Begin(c.bounded(resp.Body), resp.ContentLength, c.tries.may&^c.tries.been != 0)
		resp.Body = &c.begun
	}
	return c.begun.Beginning()
}

var eventStream = []string{"text/event-stream"}

// staleWithin is how soon it shows that a connection was closed when a call was sent: in a round trip.
const staleWithin = time.Second

// stale reports whether a connection that was kept from an earlier call was lost at once. The upstream
// has most likely closed it, as servers do after some idle seconds, just when this call was sent. The
// call is sent once more, but not again after that: an upstream that closes every connection fails, and
// so does one that resets a stream of HTTP/2, whose connection goes on.
func (c *call) stale(err error) bool {
	return c.try.reused && !c.tries.afresh && c.mayRepeat(upstreams.Stale) && c.try.classOf(err) != admission.ReasonTimeout &&
		time.Since(c.try.Began) < staleWithin && !errors.As(err, new(streamError))
}

// streamError is the form in which errors.As returns net/http's own type for a reset stream of HTTP/2.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "the stream was reset" }

// classifyError is the state of an upstream as an error answer shows it. A refusal of a call that is too large by
// itself says nothing of other calls, and an unpaid bill is not helped by coming back.
func (c *call) classifyError(resp *http.Response, body []byte) upstreams.Outcome {
	detail := detailOf(body)
	said := ""
	if resp.StatusCode == http.StatusTooManyRequests {
		said = messageOf(body)
		if delay := detail.Get(`details.#(retryDelay).retryDelay`).Str; delay != "" { // Google's
			said = "retry in " + delay
		}
	}
	retry := c.try.up.Provider.Limits.Retry(resp.Header, said, time.Now())
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		if hasCode(detail, accountCodes) {
			return upstreams.Failed
		}
		if c.tooLarge(resp, detail.Get("message").Str) {
			return upstreams.Served
		}
	case statusOverloaded, statusCapacity:
	case http.StatusServiceUnavailable:
		if retry == 0 {
			return upstreams.Failed
		}
	default:
		return upstreams.Failed
	}
	if c.apart() {
		return upstreams.Lacking
	}
	c.try.busy = true
	if limitsAccount(detail) {
		c.try.scope = upstreams.Scope{}
	}
	c.tries.wait = retry
	return upstreams.Busy
}

// messageOf is the text of an error, where servers put it.
func messageOf(body []byte) string {
	detail := detailOf(body)
	for _, name := range [...]string{"message", "error", "detail"} {
		if text := detail.Get(name); text.Type == gjson.String {
			return text.Str
		}
	}
	return ""
}

// apart reports whether the call is of those that providers limit apart: they count tokens, or are to objects.
func (c *call) apart() bool { return c.route.Free || c.route.ToObjects() && !c.route.Realtime }

const (
	statusOverloaded = 529 // Anthropic's
	statusCapacity   = 498 // Groq's, of a tier that is served with what others leave
)

// largeCalls begin what providers say of calls that are too large by themselves, or of a kind that the account has not bought.
var largeCalls = []string{"Request too large", "Extra usage is required for long context", "The long context beta is not"}

// tooLarge reports whether a call is refused because it is too large by itself, which says nothing of others.
func (c *call) tooLarge(resp *http.Response, message string) bool {
	if most := c.tries.said[upstreams.Tokens]; resp.Header.Get("X-Should-Retry") == "false" || most > 0 && c.Request.Input > most {
		return true
	}
	return slices.ContainsFunc(largeCalls, func(begin string) bool { return strings.HasPrefix(message, begin) })
}

// accountWords are those of refusals that are about all calls of an account, in lower case. Others are about a model, even if they
// mention the account, as nearly all do.
var accountWords = []string{
	"your account's rate limit", "limit for your account", "limit of your account", "limit for this account", "account rate limit", "account-level",
	"trial key", "across all models", "per account", "by your account",
}

// limitsAccount reports whether a refusal is about all calls of the account.
func limitsAccount(detail gjson.Result) bool {
	for _, name := range [...]string{"code", "type"} {
		if strings.HasPrefix(strings.ToLower(detail.Get(name).Str), "account") {
			return true
		}
	}
	said := strings.ToLower(text.Brief(detail.Get("message").Str))
	return slices.ContainsFunc(accountWords, func(word string) bool { return strings.Contains(said, word) })
}

const (
	// mostError bounds how much of an error is looked at.
	mostError = 64 << 10
	// errorPatience bounds how long it is waited for, since the call may go elsewhere.
	errorPatience = 2 * time.Second
)

// keepError reads an error answer and keeps it to be passed on, so that it holds no connection
// while the call waits. A part that does not come in time is left out.
func keepError(resp *http.Response) []byte {
	body := resp.Body
	late := time.AfterFunc(errorPatience, func() { _ = body.Close() })
	text, err := io.ReadAll(io.LimitReader(body, mostError))
	rest := io.Reader(body)
	if late.Stop(); err != nil {
		rest = http.NoBody
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	resp.Body = &kept{io.MultiReader(bytes.NewReader(text), rest), body}
	return text
}

// kept is a body whose beginning has been read.
type kept struct {
	io.Reader
	io.Closer
}

// tell reports the outcome of a try to the pool, and to the governor if that changes the capacity of the pool.
func (c *call) tell(said upstreams.Outcome) {
	t := c.try
	t.told = true
	m := c.pool.set.Members[t.index]
	events := m.Report(time.Now(), upstreams.Result{
		Outcome: said, Began: t.Began, Probe: t.probe, Told: c.tries.said, Retry: c.tries.wait, Model: c.realModel(), Tenant: c.Tenant.Name, Scope: t.scope, Cause: c.tries.why,
	})
	if c.tries.left != (upstreams.Remains{}) {
		events.Limits = c.g.look(c.pool, m, c.realModel(), &c.tries.left, said == upstreams.Busy) || events.Limits
	}
	if said == upstreams.Busy {
		c.pool.Overloaded.Store(true)
		c.g.moveLimits(c.pool) // before others are refused
	}
	if t.busy {
		c.tries.paused = events.Until
		c.tries.comeBack = time.Until(events.Until)
		t.whole = m.State(time.Now()).Busy
	}
	t.probe = false
	if events.Any() {
		c.g.noteEvents(c.pool, m, t.scope, events)
	}
}

// giveUp ends the last try.
func (c *call) giveUp() {
	if c.try.up != nil && !c.try.told {
		c.tell(upstreams.Abandoned)
	}
	c.try.leave()
}
