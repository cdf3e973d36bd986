package upstreams

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// headers are lines as people post them.
func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return h
}

// posted are headers and texts of real servers as people or their documentation show them: what is read of the limits, and the wait if
// the answer is a refusal. Times without a Date are moved to t0, some amounts are set to used up so that there is a wait, and where a
// source shows names or one value alone, the others are made up in its form.
var posted = []struct {
	source                  string
	from                    Reader
	lines                   string
	text                    string
	tokens                  int64
	requests, input, output int64
	retry                   time.Duration
}{
	// OpenAI
	{source: "https://community.openai.com/t/how-to-get-rate-limit-reset-time-for-response-api/1268905", from: OpenAI, lines: `
		x-ratelimit-limit-requests: 5000
		x-ratelimit-limit-tokens: 160000
		x-ratelimit-limit-tokens_usage_based: 160000
		x-ratelimit-remaining-requests: 4999
		x-ratelimit-remaining-tokens: 159976
		x-ratelimit-reset-requests: 12ms
		x-ratelimit-reset-tokens: 9ms`, tokens: 160_000, requests: 5000},
	{source: "https://community.openai.com/t/how-to-get-rate-limit-reset-time-for-response-api/1268905", from: OpenAI, lines: `
		date: Mon, 26 May 2025 05:00:04 GMT
		x-ratelimit-limit-requests: 30000
		x-ratelimit-limit-tokens: 150000000`, tokens: 150_000_000, requests: 30_000},
	{source: "https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers", from: OpenAI, lines: `
		x-ratelimit-limit-requests: 60
		x-ratelimit-limit-tokens: 150000
		x-ratelimit-remaining-requests: 0
		x-ratelimit-remaining-tokens: 149984
		x-ratelimit-reset-requests: 1s
		x-ratelimit-reset-tokens: 6m0s`, tokens: 150_000, requests: 60, retry: time.Second},
	{source: "https://community.openai.com/t/1366625 (a project's limit is the lower one)", from: OpenAI, lines: `
		x-ratelimit-limit-tokens: 200000
		x-ratelimit-limit-project-tokens: 60000
		x-ratelimit-remaining-project-tokens: 0
		x-ratelimit-reset-project-tokens: 3s
		x-ratelimit-remaining-tokens: 150000
		x-ratelimit-reset-tokens: 15s`, tokens: 60_000, retry: 3 * time.Second},
	{
		source: "https://github.com/BuilderIO/micro-agent/issues/86", from: OpenAI,
		text:  "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.",
		retry: 644 * time.Millisecond,
	},
	{
		source: "https://github.com/FoundationAgents/MetaGPT/issues/523", from: OpenAI,
		text:  "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s. Visit https://platform.openai.com/account/rate-limits to learn more.",
		retry: 9816 * time.Millisecond,
	},
	{
		source: "https://github.com/continuedev/continue/issues/10502 (its figures alone)", from: OpenAI,
		text:  "Rate limit reached for gpt-4.1 in organization org-x on tokens per min (TPM): Limit 30000, Used 28039, Requested 3906.",
		retry: 3890 * time.Millisecond,
	},
	{
		source: "https://github.com/daveshap/Medical_Intake/issues/9", from: OpenAI,
		text:  "Rate limit reached for 10KTPM-200RPM in organization org-x on tokens per min. Limit: 10000 / min. Please try again in 6ms. Contact us through our help center",
		retry: 6 * time.Millisecond,
	},
	{
		source: "https://github.com/stanford-crfm/helm/issues/97 (no time)", from: OpenAI,
		text: "Rate limit reached for tokens. Limit: 150000.000000 / min. Current: 176000.000000 / min. Contact support@openai.com if you continue to have issues.",
	},

	// Azure
	{source: "https://learn.microsoft.com/en-us/answers/questions/2265464 (120 RPM)", from: Azure, lines: `
		x-ratelimit-limit-requests: 20
		x-ratelimit-limit-tokens: 20000
		x-ratelimit-remaining-requests: 19
		x-ratelimit-remaining-tokens: 19913`, tokens: 20_000, requests: 120},
	{source: "https://learn.microsoft.com/en-us/answers/questions/2156987 (300 RPM)", from: Azure, lines: `
		x-ratelimit-limit-requests: 50
		x-ratelimit-remaining-requests: 45
		x-ratelimit-remaining-tokens: 46760`, requests: 300},
	{source: "https://clemenssiebler.com/posts/understanding-azure-openai-x-ratelimit-remaining-tokens-x-ratelimit-remaining-requests-headers", from: Azure, lines: `
		x-ratelimit-remaining-tokens: 19913
		x-ratelimit-remaining-requests: 19`},
	{source: "https://github.com/EvolvingPrograms/oaib/issues/11", from: Azure, lines: `
		date: Sat, 02 Mar 2024 21:35:09 GMT
		x-ms-region: North Central US
		x-ratelimit-remaining-requests: 79
		x-ratelimit-remaining-tokens: 61353`},
	{source: "https://github.com/openai/openai-dotnet/issues/838 (the Responses API)", from: Azure, lines: `
		x-ratelimit-limit-tokens: -1
		x-ratelimit-remaining-tokens: -1
		x-ratelimit-reset-tokens: 0`},
	{source: "the same, with a reset", from: Azure, lines: `
		x-ratelimit-limit-requests: -1
		x-ratelimit-remaining-requests: -1
		x-ratelimit-reset-requests: 300
		x-ratelimit-remaining-tokens: 0
		x-ratelimit-reset-tokens: 7`, retry: 7 * time.Second},
	{source: "https://github.com/openai/openai-python/issues/937 (no retry-after)", from: Azure, lines: `
		x-rate-limit-reset-tokens: 55
		policy-id: DeploymentRatelimit-Token
		x-ratelimit-remaining-requests: 299`, retry: 55 * time.Second},
	{source: "https://github.com/openai/openai-python/issues/957 (provisioned)", from: Azure, lines: `
		retry-after: 1
		retry-after-ms: 450`, retry: 450 * time.Millisecond},
	{source: "https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/spillover-traffic-management (the other deployment's limits)", from: Azure, lines: `
		x-ms-spillover-from-deployment: gpt-4o-ptu
		x-ms-deployment-name: gpt-4o-paygo
		x-ratelimit-limit-requests: 20
		x-ratelimit-limit-tokens: 20000`},
	{source: "a deployment of gpt-5.4 of 2026, which says its window", from: Azure, lines: `
		x-ratelimit-key: gpt-5.4
		x-ratelimit-limit-requests: 40
		x-ratelimit-renewalperiod-requests: 60
		x-ratelimit-limit-tokens: 4000
		x-ratelimit-renewalperiod-tokens: 60`, tokens: 4000, requests: 40},
	{
		source: "https://github.com/microsoft/action-python/issues/12", from: Azure,
		text:  "Requests to the Creates a completion for the chat message Operation under Azure OpenAI API version 2023-03-15-preview have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 3 seconds. Please go here: https://aka.ms/oai/quotaincrease",
		retry: 3 * time.Second,
	},
	{
		source: "https://github.com/jasonacox/TinyLLM/issues/17 (a day, by a text)", from: Azure,
		text:  "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2023-05-15 have exceeded token rate limit of your current AIServices S0 pricing tier. Please retry after 86400 seconds. Please contact Azure support service",
		retry: time.Minute,
	},
	{
		source: "https://github.com/Azure-Samples/graphrag-accelerator/issues/129 (API Management)", from: Azure,
		text: "Rate limit is exceeded. Try again in 50 seconds.", retry: 50 * time.Second,
	},
	{source: "GitHub Models, which answers as Azure: a wait of 0 ms is none", from: OpenAI, lines: `
		retry-after: 1
		retry-after-ms: 0
		x-ratelimit-limit-requests: 5
		x-ratelimit-renewalperiod-requests: 60
		x-ratelimit-limit-tokens: 5000
		x-ratelimit-remaining-tokens: 0
		x-ratelimit-reset-tokens: 0`, tokens: 5000, requests: 5, retry: time.Second},

	// Anthropic
	{source: "https://github.com/anthropics/anthropic-sdk-typescript/issues/357", from: Anthropic, lines: `
		anthropic-ratelimit-requests-limit: 5
		anthropic-ratelimit-requests-remaining: 0
		anthropic-ratelimit-requests-reset: 2024-03-26T20:00:00Z
		anthropic-ratelimit-tokens-limit: 25000
		anthropic-ratelimit-tokens-remaining: 16000
		anthropic-ratelimit-tokens-reset: 2024-03-26T20:00:00Z
		date: Tue, 26 Mar 2024 19:59:59 GMT
		x-should-retry: true`, tokens: 25_000, requests: 5, retry: time.Second},
	{source: "https://github.com/bespokelabsai/curator/issues/535", from: Anthropic, lines: `
		date: Mon, 24 Feb 2025 20:38:03 GMT
		anthropic-ratelimit-requests-limit: 4000
		anthropic-ratelimit-requests-remaining: 3999
		anthropic-ratelimit-requests-reset: 2025-02-24T20:37:51Z
		anthropic-ratelimit-output-tokens-limit: 80000
		anthropic-ratelimit-output-tokens-remaining: 80000
		anthropic-ratelimit-output-tokens-reset: 2025-02-24T20:38:03Z`, requests: 4000, output: 80_000},
	{source: "https://rdrr.io/cran/tidyllm/src/tests/testthat/claude/api.anthropic.com/v1/messages-e050b5-POST.R", from: Anthropic, lines: `
		date: Thu, 21 Aug 2025 12:41:00 GMT
		anthropic-ratelimit-input-tokens-limit: 80000
		anthropic-ratelimit-input-tokens-remaining: 0
		anthropic-ratelimit-input-tokens-reset: 2025-08-21T12:41:09Z
		anthropic-ratelimit-output-tokens-limit: 16000
		anthropic-ratelimit-output-tokens-remaining: 16000
		anthropic-ratelimit-output-tokens-reset: 2025-08-21T12:41:00Z
		anthropic-ratelimit-requests-limit: 1000
		anthropic-ratelimit-tokens-limit: 96000`, tokens: 96_000, requests: 1000, input: 80_000, output: 16_000, retry: 9 * time.Second},
	{source: "https://docs.anthropic.com/en/api/rate-limits (priority tier)", from: Anthropic, lines: `
		anthropic-priority-input-tokens-limit: 10000
		anthropic-priority-input-tokens-remaining: 0
		anthropic-priority-input-tokens-reset: 2026-01-05T12:00:37Z`},
	{source: "the same beside the limits that bind", from: Anthropic, lines: `
		anthropic-priority-input-tokens-limit: 10000
		anthropic-priority-input-tokens-remaining: 9000
		anthropic-priority-output-tokens-limit: 2000
		anthropic-priority-output-tokens-remaining: 0
		anthropic-priority-output-tokens-reset: 2026-01-05T12:00:37Z
		anthropic-ratelimit-input-tokens-limit: 80000
		anthropic-ratelimit-input-tokens-remaining: 0
		anthropic-ratelimit-input-tokens-reset: 2026-01-05T12:00:04Z
		anthropic-ratelimit-output-tokens-limit: 16000
		anthropic-ratelimit-output-tokens-remaining: 15000`, input: 80_000, output: 16_000, retry: 4 * time.Second},
	{source: "https://github.com/Yeachan-Heo/gajae-code/pull/2444", from: Anthropic, lines: `
		anthropic-ratelimit-unified-5h-status: rejected
		anthropic-ratelimit-unified-5h-utilization: 1.08
		anthropic-ratelimit-unified-fallback-percentage: 0.5
		retry-after: 13262`, retry: 13262 * time.Second},
	{source: "https://github.com/griffinwork40/agent-afk/pull/490 (seconds since 1970)", from: Anthropic, lines: `
		anthropic-ratelimit-unified-status: rejected
		anthropic-ratelimit-unified-reset: 1767614700`, retry: 5 * time.Minute},
	{source: "https://github.com/tombii/better-ccflare/pull/236 (529, of no limit)", from: Anthropic, lines: `
		anthropic-ratelimit-unified-status: allowed
		anthropic-ratelimit-unified-reset: 1767614700`},
	{
		source: "https://github.com/BoltAI/BoltAI/issues/338", from: Anthropic,
		text: "This request would exceed the rate limit for your organization (x) of 40,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.",
	},

	// others
	{source: "https://github.com/Pythagora-io/gpt-pilot/issues/862 (Groq: requests are a day's)", from: OpenAI, lines: `
		retry-after: 2
		x-ratelimit-limit-requests: 14400
		x-ratelimit-limit-tokens: 18000
		x-ratelimit-remaining-requests: 14370
		x-ratelimit-remaining-tokens: 17997
		x-ratelimit-reset-requests: 2m59.56s
		x-ratelimit-reset-tokens: 7.66s`, tokens: 18_000, requests: 14_400, retry: 2 * time.Second},
	{
		source: "https://github.com/danielmiessler/Fabric/issues/364 (Groq)", from: OpenAI,
		text:  "Rate limit reached for model `llama3-70b-8192` in organization `org_x` on tokens per minute (TPM): Limit 7000, Used 0, Requested ~12903.",
		retry: 50_597_142_857,
	},
	{
		source: "https://github.com/microsoft/graphrag/issues/757 (Groq: 1m30.002s)", from: OpenAI,
		text:  "Rate limit reached for model `llama3-8b-8192` in organization `org_x` on tokens per minute (TPM): Limit 30000, Used 73124, Requested 1877. Please try again in 1m30.002s.",
		retry: time.Minute,
	},
	{source: "https://github.com/mistralai/client-ts/issues/169", from: OpenAI, lines: `
		x-ratelimit-limit-tokens-minute: 5000000
		x-ratelimit-remaining-tokens-minute: 4999911
		x-ratelimit-tokens-query-cost: 52
		x-ratelimit-limit-req-minute: 720
		x-ratelimit-remaining-req-minute: 717`, tokens: 5_000_000, requests: 720},
	{source: "https://inference-docs.cerebras.ai/support/rate-limits", from: OpenAI, lines: `
		x-ratelimit-limit-requests-day: 1000000000
		x-ratelimit-limit-tokens-minute: 1000000000
		x-ratelimit-remaining-requests-day: 0
		x-ratelimit-remaining-tokens-minute: 999998455
		x-ratelimit-reset-requests-day: 33011.382867097855
		x-ratelimit-reset-tokens-minute: 11.382867097854614`, tokens: 1_000_000_000, retry: 33_011_382_867_098},
	{source: "https://github.com/Gitlawb/openclaude/issues/936 (OpenRouter: ms since 1970)", from: OpenAI, lines: `
		X-RateLimit-Limit: 50
		X-RateLimit-Remaining: 0
		X-RateLimit-Reset: 1767614700000`, retry: 5 * time.Minute},
	{source: "https://github.com/togethercomputer/skills/pull/61 (Together: seconds, on 429 alone)", from: OpenAI, lines: `
		x-ratelimit-reset: 4`, retry: 4 * time.Second},
	{source: "https://github.com/theopenco/llmgateway/pull/3877", from: OpenAI, lines: `
		RateLimit-Limit: 100
		RateLimit-Remaining: 0
		RateLimit-Reset: 31`, retry: 31 * time.Second},
	{source: "https://github.com/bespokelabsai/curator/issues/239 (LiteLLM)", from: OpenAI, lines: `
		x-ratelimit-limit-requests: 4000
		x-ratelimit-remaining-requests: 3999
		x-ratelimit-limit-tokens: 480000
		x-ratelimit-remaining-tokens: 480000
		llm_provider-anthropic-ratelimit-output-tokens-limit: 80000`, tokens: 480_000, requests: 4000},
	{
		source: "https://github.com/googleapis/python-genai/pull/2114 (Gemini)", from: OpenAI,
		text: "You exceeded your current quota. Please retry in 58.934310785s.", retry: 58_934_310_785,
	},
	{
		source: "https://github.com/microsoft/vscode-copilot-release/issues/3210", from: OpenAI,
		text: "Sorry, your request is rate-limited. Please wait 8 hours 24 minutes and try again", retry: time.Minute,
	},

	// the IETF's fields
	{source: "https://github.com/huggingface/huggingface_hub/issues/3553 (500 in five minutes may come in one)", from: OpenAI, lines: `
		ratelimit: "api";r=0;t=55
		ratelimit-policy: "fixed window";"api";q=500;w=300`, requests: 500, retry: 55 * time.Second},
	{source: "https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-10.txt (partitions, units)", from: Anthropic, lines: `
		RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600
		RateLimit-Policy: "peruser";q=100000;qu="tokens";w=60;pk=:cHsdsRa894==:
		RateLimit-Policy: "bytes";q=65535;qu="content-bytes";w=10
		RateLimit: "perhr";r=900;t=1800, "peruser";r=0;t=9;pk=:cHsdsRa894==:`, tokens: 100_000, requests: 50, retry: 9 * time.Second},
	{source: "axum-governor (a window of a second)", from: Azure, lines: `
		RateLimit: "peer";r=0;t=1
		RateLimit-Policy: "peer";q=10;w=1, "auth";q=6000;w=60`, requests: 600, retry: time.Second},
	{source: "tokens of a prompt are no limit of all tokens, and no window is no rate", from: OpenAI, lines: `
		RateLimit-Policy: "input-tokens";q=10;w=60, "tokens";q=5, "parallel";q=4;qu="concurrent-requests";w=60`, input: 10},
}

func TestReader_AsPosted(t *testing.T) {
	for _, c := range posted {
		h := headers(c.lines)
		if got, want := c.from.Read(h), (Told{Tokens: c.tokens, Requests: c.requests, Input: c.input, Output: c.output}); got != want {
			t.Errorf("%s: the limits are %+v, want %+v", c.source, got, want)
		}
		if got := c.from.Retry(h, c.text, t0); got.Round(time.Microsecond) != c.retry.Round(time.Microsecond) {
			t.Errorf("%s: the wait is %v, want %v", c.source, got, c.retry)
		}
	}
}

// Every form of a wait is read, by the clock of who says it; what cannot be meant is none.
func TestReader_RetryForms(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  time.Duration
	}{
		{"", 0},
		{"Retry-After: 3", 3 * time.Second},
		{"Retry-After: 1.5", 1500 * time.Millisecond},
		{"Retry-After: 30s", 30 * time.Second},
		{"Retry-After: 2 minutes", 2 * time.Minute},
		{"Retry-After: 1h2m3s", time.Hour + 2*time.Minute + 3*time.Second},
		{"Retry-After: 1d1h", 25 * time.Hour},
		{"Retry-After: 0", 0},
		{"Retry-After: -3", 0},
		{"Retry-After: NaN", 0},
		{"Retry-After: 1e300", 0},
		{"Retry-After: 99999999999999999999h", 0},
		{"Retry-After: 40000000", 0}, // more than a year
		{"Retry-After: soon", 0},
		{"Retry-After: 5, 10", 0},
		{"Retry-After: +5", 0},
		{"Retry-After: null", 0},
		{"Retry-After:  7 ", 7 * time.Second},
		{"Retry-After: 1767614420", 20 * time.Second},
		{"Retry-After: 1767614420500", 20500 * time.Millisecond},
		{"Retry-After: 1767600000", 0},
		{"Retry-After: Mon, 05 Jan 2026 12:00:20 GMT", 20 * time.Second},
		{"Retry-After: Mon, 05 Jan 2026 11:00:00 GMT", 0},
		{"Retry-After: Monday, 05-Jan-26 12:00:20 GMT", 20 * time.Second},
		{"Retry-After: Mon Jan  5 12:00:20 2026", 20 * time.Second},
		{"Retry-After: 2026-01-05T12:00:20.500Z", 20500 * time.Millisecond},
		{"Retry-After: 2026-01-05T14:00:20+02:00", 20 * time.Second},
		{"Retry-After: Mon, 05 Jan 9999 12:00:20 GMT", 0},
		{"Retry-After: Wed, 05 Jan 2028 12:00:20 GMT", 0},
		{"Date: Wed, 05 Jan 2028 12:00:00 GMT\nRetry-After: Wed, 05 Jan 2028 12:00:20 GMT", 20 * time.Second},
		{"Date: Sun, 05 Jan 2025 12:00:00 GMT\nRetry-After: Sun, 05 Jan 2025 12:00:20 GMT", 20 * time.Second},
		{"Date: long ago\nRetry-After: Mon, 05 Jan 2026 12:00:20 GMT", 20 * time.Second},
		{"Retry-After: 3\nRetry-After-Ms: 250", 250 * time.Millisecond},
		{"Retry-After: 3\nRetry-After-Ms: -1", 3 * time.Second},
		{"Retry-After: 3\nRetry-After-Ms: +Inf", 3 * time.Second},
		{"Retry-After: 3\nX-Ms-Retry-After-Ms: 1250", 1250 * time.Millisecond},
		{"X-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 6m0s\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 20ms", 6 * time.Minute},
		{"X-Ratelimit-Remaining-Tokens: 7\nX-Ratelimit-Reset-Tokens: 6m0s", 0},
		{"X-Ratelimit-Remaining-Tokens: -1\nX-Ratelimit-Reset-Tokens: 6m0s", 0},
		{"X-Ratelimit-Remaining-Tokens: -250\nX-Ratelimit-Reset-Tokens: 6m0s", 6 * time.Minute}, // overdrawn
		{"X-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 12", 12 * time.Second},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining: 0\nAnthropic-Ratelimit-Input-Tokens-Reset: 2026-01-05T12:00:30Z", 30 * time.Second},
		{"RateLimit: \"a\";r=0;t=99999999999, \"b\";r=0;t=8", 8 * time.Second},
		{"RateLimit: \"a\";r=0", 0},
	} {
		if got := OpenAI.Retry(headers(c.lines), "", t0); got != c.want {
			t.Errorf("%q is %v, want %v", c.lines, got, c.want)
		}
	}
}

// What is no number, or none that limits, is no limit; each kind is read by its own names.
func TestReader_Limits(t *testing.T) {
	for _, c := range []struct {
		from  Reader
		lines string
		want  Told
	}{
		{OpenAI, "X-Ratelimit-Limit-Tokens: -1\nX-Ratelimit-Limit-Requests: many", Told{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 0\nX-Ratelimit-Limit-Requests: NaN", Told{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 30000\nAnthropic-Ratelimit-Requests-Limit: 50", Told{Tokens: 30_000, Requests: 50}},
		{Anthropic, "X-Ratelimit-Limit-Tokens: 30000\nAnthropic-Ratelimit-Requests-Limit: 50", Told{Requests: 50}},
		{OpenAI, "Anthropic-Priority-Input-Tokens-Limit: 10000\nAnthropic-Priority-Output-Tokens-Limit: 10", Told{}},
		{OpenAI, "X-Ratelimit-Limit-Requests: 7\nX-Ratelimit-Limit-Tokens: 99999999999999999999", Told{Tokens: 1_000_000_000_000, Requests: 7}},
		{Azure, "X-Ratelimit-Limit-Requests: 7\nX-Ratelimit-Limit-Tokens: 700", Told{Tokens: 700, Requests: 42}},
		{Azure, "X-Ratelimit-Limit-Requests: 7\nX-Ratelimit-Renewalperiod-Requests: 1", Told{Requests: 420}},
		{Azure, "X-Ratelimit-Limit-Requests: 7\nX-Ratelimit-Renewalperiod-Requests: 86400", Told{Requests: 7}},
		{Azure, "X-Ratelimit-Limit-Requests: 9223372036854775807", Told{Requests: 6_000_000_000_000}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 40,000\nX-Ratelimit-Limit-Requests: unlimited", Told{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 1.5e+06\nX-Ratelimit-Limit-Requests: 500.0", Told{Tokens: 1_500_000, Requests: 500}},
		{OpenAI, "X-Ratelimit-Limit-Tokens:\nX-Ratelimit-Limit-Requests: 10, 10;w=1;w=60", Told{}}, // Envoy's, of which it says several
		{OpenAI, "X-Ratelimit-Limit-Requests: 500\nX-Ratelimit-Limit-Requests: 20", Told{Requests: 500}},
		{OpenAI, "X-Ratelimit-Model_per_key-Limit-Tokens: 30000\nX-Ratelimit-Limit-Tokens_usage_based: 9\nX-Ai-Ratelimit-Limit-Minute-Azure: 5", Told{}}, // LiteLLM, OpenAI, Kong
		{Azure, "X-Ratelimit-Limit-Requests: 1\nX-Ratelimit-Renewalperiod-Requests: 0", Told{Requests: 6}},
		{OpenAI, "X-Ratelimit-Limit-Requests: 60\nRateLimit-Policy: \"requests\";q=10;w=60", Told{Requests: 60}},
		{OpenAI, "RateLimit-Policy: \"tokens\";q=-5;w=60, ;;=;q=x;w=60, \"a,b\";q=5;w=-60", Told{}},
	} {
		if got := c.from.Read(headers(c.lines)); got != c.want {
			t.Errorf("%q is %+v, want %+v", c.lines, got, c.want)
		}
	}
}

// What is left is read with its limit, its window and its reset, of the limits that count; what is not said, or not meant, is left out.
func TestReader_Remains(t *testing.T) {
	at := func(of limits.Axis, l Left) (r Remains) { r[of] = l; return r }
	minute := func(limit, left int64, reset time.Duration) Left { return Left{limit, left, time.Minute, reset} }
	for _, c := range []struct {
		from  Reader
		lines string
		want  Remains
	}{
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: 149984\nX-Ratelimit-Reset-Tokens: 6ms", at(Tokens, minute(150_000, 149_984, 6*time.Millisecond))},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: -200", at(Tokens, minute(150_000, 0, 0))}, // overdrawn
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: -1", Remains{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: NaN", Remains{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000", Remains{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens:", Remains{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: 149,984", Remains{}},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 150000\nX-Ratelimit-Remaining-Tokens: 149984.7\nX-Ratelimit-Reset-Tokens: 120µs", at(Tokens, minute(150_000, 149_984, 0))},
		{OpenAI, "X-Ratelimit-Limit-Tokens: 5\nX-Ratelimit-Remaining-Tokens: 9223372036854775807\nX-Ratelimit-Reset-Tokens: 1m 2.5s", at(Tokens, minute(5, 1_000_000_000_000, 62500*time.Millisecond))},
		{OpenAI, "X-Ratelimit-Remaining-Tokens: 19913", Remains{}},
		{
			OpenAI, "X-Ratelimit-Limit-Tokens: 200000\nX-Ratelimit-Remaining-Tokens: 9\nX-Ratelimit-Limit-Project-Tokens: 60000\nX-Ratelimit-Remaining-Project-Tokens: 50000\nX-Ratelimit-Reset-Project-Tokens: 10s",
			at(Tokens, minute(60_000, 50_000, 10*time.Second)),
		},
		{Azure, "X-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 19", at(Requests, Left{20, 19, 10 * time.Second, 0})},
		{Azure, "X-Ms-Spillover-From-Deployment: ptu\nX-Ratelimit-Limit-Requests: 20\nX-Ratelimit-Remaining-Requests: 19", Remains{}},
		{Anthropic, "Date: Wed, 05 Jan 2028 12:00:00 GMT\nAnthropic-Ratelimit-Input-Tokens-Limit: 50000\nAnthropic-Ratelimit-Input-Tokens-Remaining: 47000\nAnthropic-Ratelimit-Input-Tokens-Reset: 2028-01-05T12:00:04Z", at(Input, minute(50_000, 47_000, 4*time.Second))},
		{Anthropic, "Anthropic-Priority-Output-Tokens-Limit: 2000\nAnthropic-Priority-Output-Tokens-Remaining: 5", Remains{}},
		{OpenAI, "RateLimit-Policy: \"day\";q=9000;w=86400, \"tokens\";q=1000;w=60\nRateLimit: \"tokens\";r=40;t=17", at(Tokens, minute(1000, 40, 17*time.Second))},
	} {
		if got := c.from.Remains(headers(c.lines), t0); got != c.want {
			t.Errorf("%q leaves %+v, want %+v", c.lines, got, c.want)
		}
	}
}
