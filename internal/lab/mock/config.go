package mock

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// The ways in which tokens count against TPM; see Config.Accounting.
const (
	AdmitMax   = "admit_max"
	Production = "production"
	Settle     = "settle"
	Bedrock    = "bedrock"
)

// The ways in which a minute counts; see Config.Minute.
const (
	Rolling = "rolling"
	Fixed   = "fixed"
	Bucket  = "bucket"
	Azure   = "azure"

	AzureSecond = "azure_1s"
)

// The places of usage in a stream; see Config.Usage.
const (
	UsageChunk  = "chunk"
	UsageFinish = "finish"
	UsageEach   = "each"
	UsageAbsent = "absent"
)

// Config describes the provider that a Server simulates. The zero value is an instant, unlimited
// and faultless one.
type Config struct {
	// Models are the names listed at /v1/models. Requests for any other name are served as
	// well, so that the mock can stand behind any pool. Default: a few plausible names.
	Models []string

	// APIKey, when set, must come with every request to the API, as "Authorization: Bearer",
	// "api-key" or "x-api-key"; without it the answer is OpenAI's 401. Default: no key is asked for.
	APIKey string

	// FirstToken is the time from getting a slot to the first token. Default 0: at once.
	FirstToken time.Duration

	// TokensPerSecond is the output speed of one answer, streamed or not; each of the n
	// choices of a request runs at this speed. Default 0: the whole answer at once, still one
	// chunk a token.
	TokensPerSecond float64

	// PrefixCache is how many tokens of prompts' beginnings are cached, in blocks of 64: those that were used
	// least recently are dropped. A cached token is reported as such, and otherwise treated like all. Default 0: no cache.
	PrefixCache int64

	// Slots is the number of concurrent requests. Further ones queue silently, first come first
	// served, which gives llama.cpp's knee: throughput stops growing at this concurrency and
	// time to first token grows linearly after. Default 0: no such bound.
	Slots int

	// Batch and KVCache have it batch continuously (package batch): with Batch calls at once each is half as fast as alone, and
	// KVCache is how many tokens the contexts of all may have. Default 0: they do not slow each other down, and no such bound.
	Batch   int
	KVCache int64

	// OutputTokens is the length of an answer, per choice, when the request sets no bound and
	// no hook. Default 32.
	OutputTokens int

	// MostOutput is the longest answer, for clients whose bounds are far above what they expect, as those of coding agents
	// are. Default 0: an answer is as long as its request's bound.
	MostOutput int

	// TPM and RPM are the server's own limits on tokens and requests over every rolling 60 s.
	// Default 0: the axis is off, not measured, and without x-ratelimit headers. To
	// measure without refusing, set a limit out of reach.
	TPM, RPM int64

	// ITPM and OTPM are such limits on input and output apart, as Anthropic has them: cached tokens are no input, and output
	// counts when it is produced, whatever the request's bound. Default 0.
	ITPM, OTPM int64

	// Accounting is the way in which tokens count against TPM. Default "admit_max".
	//
	//	admit_max   prompt and largest output are booked at admission; at the end the tokens
	//	            not produced are taken off that booking. A request without a bound is
	//	            booked at the length it will have, which a simulation knows.
	//	production  the prompt counts at admission, each output token when it is produced.
	//	            Answers in flight can push the sum over the limit, as at real providers.
	//	settle      prompt and output count together when the request ends, however it ends.
	//	bedrock     as admit_max, but each token that was produced counts five times, and more is booked while they are
	//	            produced if need be; at the end cached tokens of the prompt are taken off, too.
	//
	// Production and settle refuse when rolling sum and prompt together exceed the limit.
	Accounting string

	// Minute is the minute of the limits. Default "rolling".
	//
	//	rolling   the 60 s before each request
	//	fixed     a minute of the server's clock, after which all is free again
	//	bucket    a bucket that is full at first, and filled at the limit's rate: OpenAI's and Anthropic's way
	//	azure     as fixed, but requests in 10 s of the clock, of which the limit is a sixth: Azure's way
	//	azure_1s  as azure, in 1 s, which the headers say: Azure's way as well, and nobody says of which deployments
	Minute string

	// ErrorRate, HangupRate and SlowRate are the shares (0 to 1) of requests that are answered
	// with a 500, cut off in the middle of the answer, or served with a pause before each
	// chunk. They are drawn independently, from Seed and the number of the request. Default 0.
	ErrorRate, HangupRate, SlowRate float64

	// SlowChunk is the pause before each chunk of a slow request; required with SlowRate.
	SlowChunk time.Duration

	// Usage is the place of usage in streams. Default "chunk".
	//
	//	chunk   an extra last chunk with empty choices, only when the request asks for it by
	//	        stream_options.include_usage: OpenAI's way
	//	finish  beside the last finish_reason, unasked: llama.cpp's way
	//	each    in each chunk, the usage of the answer so far, unasked: vLLM's continuous_usage_stats
	//	absent  nowhere, even when asked
	//
	// Streams of responses and messages have a place for it, at the end, and messages for the
	// prompt at the start: they know "absent", and messages "each".
	Usage string

	// Seed makes the draws of the rates repeatable, and distinguishes the ids of servers.
	// Default 0.
	Seed uint64

	// Logf, when set, is called with one line for each request that ended.
	Logf func(format string, args ...any)
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	if len(c.Models) == 0 {
		c.Models = []string{"gpt-4o", "gpt-4o-mini", "o4-mini", "text-embedding-3-small", "omni-moderation-latest"}
	}
	if c.OutputTokens == 0 {
		c.OutputTokens = 32
	}
	if c.Accounting == "" {
		c.Accounting = AdmitMax
	}
	if c.Minute == "" {
		c.Minute = Rolling
	}
	if c.Usage == "" {
		c.Usage = UsageChunk
	}
	return c
}

// validate reports every problem of c, whose defaults are filled in.
func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("mock: "+format, args...))
		}
	}
	for i, m := range c.Models {
		check(m != "", "Models[%d] is empty: give it a name", i)
	}
	check(c.FirstToken >= 0, "FirstToken is %s: must not be negative", c.FirstToken)
	check(c.TokensPerSecond >= 0 && !math.IsInf(c.TokensPerSecond, 0),
		"TokensPerSecond is %v: must be 0 (instant) or a positive number", c.TokensPerSecond)
	check(c.PrefixCache == 0 || c.PrefixCache >= blockTokens && c.PrefixCache <= 1<<40, "PrefixCache is %d: must be 0 (none) or at least %d", c.PrefixCache, blockTokens)
	check(c.Slots >= 0, "Slots is %d: must be 0 (unlimited) or positive", c.Slots)
	check(c.Batch >= 0, "Batch is %d: must be 0 (no slower) or positive", c.Batch)
	check(c.KVCache >= 0, "KVCache is %d: must be 0 (no bound) or positive", c.KVCache)
	check(c.OutputTokens >= 0 && c.OutputTokens <= maxOutput, "OutputTokens is %d: must be 1 to %d", c.OutputTokens, maxOutput)
	check(c.TPM >= 0, "TPM is %d: must be 0 (off) or positive", c.TPM)
	check(c.RPM >= 0, "RPM is %d: must be 0 (off) or positive", c.RPM)
	check(c.ITPM >= 0, "ITPM is %d: must be 0 (off) or positive", c.ITPM)
	check(c.OTPM >= 0, "OTPM is %d: must be 0 (off) or positive", c.OTPM)
	check(slices.Contains([]string{AdmitMax, Production, Settle, Bedrock}, c.Accounting),
		"Accounting is %q: must be admit_max, production, settle or bedrock", c.Accounting)
	check(slices.Contains([]string{Rolling, Fixed, Bucket, Azure, AzureSecond}, c.Minute), "Minute is %q: must be rolling, fixed, bucket, azure or azure_1s", c.Minute)
	check(c.Usage == UsageChunk || c.Usage == UsageFinish || c.Usage == UsageEach || c.Usage == UsageAbsent,
		"Usage is %q: must be chunk, finish, each or absent", c.Usage)
	checkRate := func(name string, r float64) {
		check(r >= 0 && r <= 1, "%s is %v: must be a share from 0 to 1", name, r)
	}
	checkRate("ErrorRate", c.ErrorRate)
	checkRate("HangupRate", c.HangupRate)
	checkRate("SlowRate", c.SlowRate)
	check(c.MostOutput >= 0 && c.MostOutput <= maxOutput, "MostOutput is %d: must be 1 to %d", c.MostOutput, maxOutput)
	check(c.SlowChunk >= 0, "SlowChunk is %s: must not be negative", c.SlowChunk)
	check(c.SlowRate == 0 || c.SlowChunk != 0, "SlowRate is %v but SlowChunk is 0: set the length of the pause", c.SlowRate)
	return errors.Join(errs...)
}
