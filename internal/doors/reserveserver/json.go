package reserveserver

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor/remote/admissionv1"
)

// reserveRequest is the body of POST /v1/reservations. admission.proto explains its fields.
type reserveRequest struct {
	ReservationID   string     `json:"reservation_id,omitempty" maxLength:"128" pattern:"^[!-~]*$" description:"Names the reservation, so that a request whose answer was lost can be repeated. Left out, one is made."`
	Key             string     `json:"key,omitempty" maxLength:"16384" description:"An API key of the tenant that asks, or a token; or tenant; or neither, if the bearer token is such a key."`
	Tenant          string     `json:"tenant,omitempty" maxLength:"256" description:"The name of the tenant that asks, for callers with the listener's token."`
	Member          string     `json:"member,omitempty" maxLength:"256" description:"Who of the tenant's members makes the call, by the name that the tenant's policy would find in a request."`
	Model           string     `json:"model,omitempty" maxLength:"256" description:"The model. A call has a model, or a pool in which it is counted, or both."`
	Pool            string     `json:"pool,omitempty" maxLength:"256"`
	Route           string     `json:"route,omitempty" maxLength:"256" description:"The kind of the call, such as /chat/completions."`
	Instead         []string   `json:"instead,omitempty" description:"Models that may answer in its place."`
	InputTokens     int64      `json:"input_tokens,omitempty" minimum:"0" maximum:"1000000000" description:"How long the prompt is, if that is known."`
	InputBytes      int64      `json:"input_bytes,omitempty" minimum:"0" maximum:"1000000000" description:"How long its text is otherwise."`
	MaxOutputTokens int64      `json:"max_output_tokens,omitempty" minimum:"-1" description:"How many tokens the answer may have; 0, -1 and more than 1000000000 is as many as the pool assumes."`
	Copies          int64      `json:"copies,omitempty" minimum:"0" maximum:"4096" description:"How many answers there are."`
	NoOutput        bool       `json:"no_output,omitempty" description:"The answer has no tokens, such as an embedding."`
	OpenOutput      bool       `json:"open_output,omitempty" description:"The answer has tokens that nothing in the call can bound, such as a transcription."`
	Free            bool       `json:"free,omitempty" description:"The call takes no tokens. It counts as a request."`
	Stream          bool       `json:"stream,omitempty"`
	ServiceTier     string     `json:"service_tier,omitempty" maxLength:"48" description:"The service tier that the call asks for, at whose price it is held."`
	Background      bool       `json:"background,omitempty" description:"Interactive calls go first."`
	MaxWait         *float64   `json:"max_wait_seconds,omitempty" minimum:"0" maximum:"86400" description:"Shortens the time that the policy lets the call wait; 0 does not wait."`
	Retry           *retryJSON `json:"retry,omitempty"`
	RequestID       string     `json:"request_id,omitempty" maxLength:"128" pattern:"^[!-~]*$" description:"Names the call in explanations, events and lists of leases."`
	TTL             float64    `json:"ttl_seconds,omitempty" minimum:"0" maximum:"3600" description:"How long the reservation is kept without a sign of life: 1 to 3600; left out, 60."`
}

type retryJSON struct {
	Key     string `json:"key" maxLength:"256" description:"Names the call and its retries, and nothing else of the tenant's."`
	Attempt int32  `json:"attempt,omitempty" minimum:"0" maximum:"1000000000" description:"Counts its tries from 1; 0 does not count them."`
	Once    bool   `json:"once,omitempty" description:"Refuses another call with the same key until this one has ended."`
}

// reserveAnswer is the answer to POST /v1/reservations.
type reserveAnswer struct {
	ReservationID string            `json:"reservation_id" required:"true"`
	TTL           float64           `json:"ttl_seconds" required:"true" description:"When the reservation ends, unless progress renews it."`
	Headers       map[string]string `json:"headers" required:"true" nullable:"false" description:"To show to whoever made the call: where it stands."`
	Tenant        string            `json:"tenant" required:"true"`
	Pool          string            `json:"pool" required:"true"`
	Waited        float64           `json:"waited_seconds" required:"true"`
	MaxOutput     int64             `json:"max_output_tokens,omitempty" description:"How many tokens the tenant's policy lets the answer have: bound the call by it. Left out, as many as the call asks for."`
}

// progressRequest is the body of POST …/progress.
type progressRequest struct {
	OutputTokens int64 `json:"output_tokens,omitempty" minimum:"0" maximum:"1000000000" description:"How many tokens of output there are so far."`
	Deltas       int64 `json:"deltas,omitempty" minimum:"0" maximum:"1000000000" description:"In how many pieces they came, if that is all that is known."`
}

// progressAnswer is the answer to POST …/progress.
type progressAnswer struct {
	TTL         float64      `json:"ttl_seconds" required:"true"`
	Interrupted *interrupted `json:"interrupted,omitempty" description:"The call must be ended now, and committed."`
}

type interrupted struct {
	Status  int    `json:"status" required:"true"`
	Code    string `json:"code" required:"true"`
	Message string `json:"message" required:"true"`
}

// commitRequest is the body of POST …/commit.
type commitRequest struct {
	Outcome string     `json:"outcome,omitempty" enum:"completed,answered_error,failed,cancelled" description:"completed by default; failed is an answer that the model server broke off, cancelled one that its caller did."`
	Status  int        `json:"status,omitempty" minimum:"300" maximum:"599" description:"With answered_error, the status of HTTP with which the model server answered. Limits of per_tenant go by it, and adaptive ones unless it is told with the key of a tenant."`
	Usage   *usageJSON `json:"usage,omitempty" description:"What the model server has reported; left out, it is estimated."`
	Partial bool       `json:"partial,omitempty" description:"The usage is not all that it took: of an answer that broke off, say, of which only the prompt was told. The output is estimated, as without a usage."`
	progressRequest
}

type usageJSON struct {
	Input          int64  `json:"input_tokens" minimum:"0" maximum:"1000000000"`
	CachedInput    int64  `json:"cached_input_tokens,omitempty" minimum:"0" maximum:"1000000000" description:"A part of the input, as all but the output's parts are."`
	CacheWrite     int64  `json:"cache_write_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	CacheWriteHour int64  `json:"cache_write_hour_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	Output         int64  `json:"output_tokens" minimum:"0" maximum:"1000000000"`
	Reasoning      int64  `json:"reasoning_tokens,omitempty" minimum:"0" maximum:"1000000000" description:"A part of the output."`
	AudioInput     int64  `json:"audio_input_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	AudioOutput    int64  `json:"audio_output_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	ImageInput     int64  `json:"image_input_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	ImageOutput    int64  `json:"image_output_tokens,omitempty" minimum:"0" maximum:"1000000000"`
	Tools          int64  `json:"tool_calls,omitempty" minimum:"0" maximum:"1000000000" description:"Web searches that the provider ran."`
	FileSearches   int64  `json:"file_searches,omitempty" minimum:"0" maximum:"1000000000" description:"Searches of files that it ran."`
	CodeSessions   int64  `json:"code_sessions,omitempty" minimum:"0" maximum:"1000000000" description:"Sessions in which it ran code."`
	Tier           string `json:"service_tier,omitempty" maxLength:"48" description:"The service tier that answered, if it is not the standard one."`
}

// endAnswer is the answer to POST …/commit and …/cancel.
type endAnswer struct {
	Released bool `json:"reservation_released" required:"true" description:"Whether this was the reservation's end. If not, it had ended before, and what the estimate lacked was charged."`
}

// proto is the request in the words of gRPC, so that both are read by the same rules.
func (r *reserveRequest) proto() *admissionv1.ReserveRequest {
	out := &admissionv1.ReserveRequest{
		ReservationId: r.ReservationID, Key: r.Key, Tenant: r.Tenant, Member: r.Member, Model: r.Model, Pool: r.Pool, Route: r.Route, Instead: r.Instead,
		InputTokens: r.InputTokens, InputBytes: r.InputBytes, MaxOutputTokens: r.MaxOutputTokens, Copies: r.Copies,
		NoOutput: r.NoOutput, OpenOutput: r.OpenOutput, Free: r.Free, Stream: r.Stream, ServiceTier: r.ServiceTier, Background: r.Background, RequestId: r.RequestID,
	}
	if r.MaxWait != nil {
		out.MaxWait = seconds(*r.MaxWait)
	}
	if r.Retry != nil {
		out.Retry = &admissionv1.Retry{Key: r.Retry.Key, Attempt: r.Retry.Attempt, Once: r.Retry.Once}
	}
	if r.TTL != 0 {
		out.Ttl = seconds(r.TTL)
	}
	return out
}

// seconds is a duration in seconds, far beyond all bounds if it is out of any.
func seconds(s float64) *durationpb.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	return durationpb.New(time.Duration(max(-most, min(s, most)) * float64(time.Second)))
}
