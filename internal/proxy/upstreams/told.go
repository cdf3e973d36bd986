package upstreams

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Told are limits of a minute, or use of them, by axis; a limit of 0 is none.
type Told = limits.Cost

// The axes of limits that upstreams declare.
const (
	Tokens   = limits.Tokens
	Requests = limits.Requests
	Input    = limits.Input
	Output   = limits.Output
)

// Limited are these, in the order in which they are listed.
var Limited = [limits.Kinds]limits.Axis{Tokens, Requests, Input, Output}

// Count is a limit that an upstream counts by itself, with the names of its headers in their canonical form.
type Count struct {
	Of     limits.Axis
	Limit  string // in each window; "" of one that pools have no limits of: only the wait for more of it is read
	Window int64  // in seconds, if Period says nothing; 0 is a minute
	Period string // its seconds, which some servers say
	// Left is how much is left, and Reset when there is more: a time, or a wait.
	Left, Reset string
}

// Reader is how a kind of upstream declares its limits. Beside its own headers it reads the IETF's RateLimit and
// RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11).
type Reader struct {
	Counts []Count
	// Elsewhere is a header of answers of another deployment, whose limits say nothing of the one that was called, and Deployment one that
	// names it.
	Elsewhere, Deployment string
}

// OpenAI, Azure and Anthropic are the readers by kind. OpenAI's is also that of all servers without a kind of their own.
var (
	OpenAI    = Reader{Counts: append(append(openAI(0), others...), anthropic...)}
	Azure     = Reader{Counts: append(openAI(10), Count{Reset: "X-Rate-Limit-Reset-Tokens"}), Elsewhere: "X-Ms-Spillover-From-Deployment", Deployment: "X-Ms-Deployment-Name"}
	Anthropic = Reader{Counts: anthropic}
)

// openAI are the counts under OpenAI's names, with the window of requests.
func openAI(window int64) []Count {
	return []Count{
		{Requests, "X-Ratelimit-Limit-Requests", window, "X-Ratelimit-Renewalperiod-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{Tokens, "X-Ratelimit-Limit-Tokens", 0, "X-Ratelimit-Renewalperiod-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	}
}

// others are OpenAI's limits of a project, and those of servers that speak as OpenAI does.
var others = []Count{
	{Tokens, "X-Ratelimit-Limit-Project-Tokens", 0, "", "X-Ratelimit-Remaining-Project-Tokens", "X-Ratelimit-Reset-Project-Tokens"},
	{Requests, "X-Ratelimit-Limit-Req-Minute", 0, "", "X-Ratelimit-Remaining-Req-Minute", "X-Ratelimit-Reset-Req-Minute"}, // Mistral
	{Requests, "X-Ratelimit-Limit-Requests-Minute", 0, "", "X-Ratelimit-Remaining-Requests-Minute", "X-Ratelimit-Reset-Requests-Minute"},
	{Tokens, "X-Ratelimit-Limit-Tokens-Minute", 0, "", "X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},
	{Left: "X-Ratelimit-Remaining-Requests-Day", Reset: "X-Ratelimit-Reset-Requests-Day"}, // Cerebras
	{Left: "X-Ratelimit-Remaining", Reset: "X-Ratelimit-Reset"},                           // OpenRouter, Together, Envoy
	{Left: "Ratelimit-Remaining", Reset: "Ratelimit-Reset"},                               // the IETF's drafts up to 06
}

// anthropic are Anthropic's counts. Those of its priority tier (anthropic-priority-…) are left out: its calls count against these as well, and one
// beyond them is served without priority.
var anthropic = []Count{
	{Requests, "Anthropic-Ratelimit-Requests-Limit", 0, "", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{Tokens, "Anthropic-Ratelimit-Tokens-Limit", 0, "", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{Input, "Anthropic-Ratelimit-Input-Tokens-Limit", 0, "", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{Output, "Anthropic-Ratelimit-Output-Tokens-Limit", 0, "", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	{Left: "Anthropic-Ratelimit-Unified-Status", Reset: "Anthropic-Ratelimit-Unified-Reset"}, // of subscriptions
}

// Passed is the name of the deployment that answered in place of the one that was called; "" if none did.
func (r *Reader) Passed(h http.Header) string {
	if r.Elsewhere == "" || h[r.Elsewhere] == nil {
		return ""
	}
	return h.Get(r.Deployment)
}

// Read reads the limits that an answer declares: of several on an axis, the lowest.
func (r *Reader) Read(h http.Header) (t Told) {
	if r.Elsewhere != "" && h[r.Elsewhere] != nil {
		return t
	}
	for i := range r.Counts {
		c := &r.Counts[i]
		if limit := h[c.Limit]; limit != nil {
			lower(&t[c.Of], number(limit), cmp.Or(number(h[c.Period]), c.Window))
		}
	}
	if policies := h["Ratelimit-Policy"]; policies != nil && t == (Told{}) {
		for _, p := range items(policies) {
			if of, known := p.axis(); known && p.n["w"] > 0 {
				lower(&t[of], p.n["q"], p.n["w"])
			}
		}
	}
	return t
}

// lower lowers a limit to n a window of some seconds, of which 0 is a minute; n of 0 is none. Of a longer window as much may come in
// one minute.
func lower(limit *int64, n, window int64) {
	if n <= 0 {
		return
	}
	n = min(n, 1_000_000_000_000)
	if window > 0 && window < 60 {
		n = n * 60 / window
	}
	if *limit == 0 || n < *limit {
		*limit = n
	}
}

// number reads a header that is a positive number; 0 if it is none.
func number(values []string) int64 {
	if len(values) == 0 {
		return 0
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(values[0]), 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return int64(min(n, 1_000_000_000_000))
}

// item is one of an IETF field: a policy of q in w seconds, or what is left of one, r, with more in t seconds.
type item struct {
	name, qu string
	n        map[string]int64
}

// items reads an IETF field. What it does not know is left out.
func items(values []string) (list []item) {
	for _, member := range strings.Split(strings.ToLower(strings.Join(values, ",")), ",") {
		name, params, _ := strings.Cut(member, ";")
		i := item{name: strings.TrimSpace(name), n: map[string]int64{}}
		for _, p := range strings.Split(params, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				i.n[key] = n
			} else if key == "qu" {
				i.qu = strings.Trim(value, `"`)
			}
		}
		list = append(list, i)
	}
	return list
}

// axis is what a policy counts: as it says, else by its name requests or tokens; false if pools have no limits of that.
func (i *item) axis() (k limits.Axis, known bool) {
	said := cmp.Or(i.qu, i.name)
	switch {
	case strings.Contains(said, "input"):
		return Input, true
	case strings.Contains(said, "output"):
		return Output, true
	case strings.Contains(said, "token"):
		return Tokens, true
	case i.qu == "" || i.qu == "requests":
		return Requests, true
	}
	return 0, false
}

const (
	// longestMeant is the longest wait that can be meant. Beyond it a clock is wrong, or a unit.
	longestMeant = 31 * 24 * time.Hour
	// longestHint bounds waits that only a text asks for.
	longestHint = time.Minute
)

// Retry is the wait that a refusal asks for, or 0: in milliseconds, in seconds or as a date, else the reset of an amount of which
// nothing remains, else what its text says. Dates are read by the upstream's own clock, if the answer tells it.
func (r *Reader) Retry(h http.Header, text string, now time.Time) time.Duration {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		now = at
	}
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d := meant(float64(number(h[name])) / 1000); d > 0 {
			return d
		}
	}
	if d := after(h.Get("Retry-After"), now); d > 0 {
		return d
	}
	longest := time.Duration(0)
	for i := range r.Counts {
		if c := &r.Counts[i]; usedUp(h[c.Left]) {
			longest = max(longest, after(h.Get(c.Reset), now))
		}
	}
	for _, i := range items(h["Ratelimit"]) {
		if left, said := i.n["r"]; said && left == 0 {
			longest = max(longest, meant(float64(i.n["t"])))
		}
	}
	if longest > 0 {
		return longest
	}
	return min(hint(text), longestHint)
}

// usedUp reports whether nothing is left. Servers say -1 of what they do not limit; some say only when there is more.
func usedUp(left []string) bool {
	if len(left) == 0 {
		return true
	}
	n, err := strconv.ParseFloat(left[0], 64)
	return err == nil && n <= 0 && n != -1 || left[0] == "rejected"
}

// meant is a wait in seconds, or 0 if it cannot be meant.
func meant(s float64) time.Duration {
	if !(s > 0 && s <= longestMeant.Seconds()) {
		return 0
	}
	return time.Duration(math.Round(s * float64(time.Second)))
}

// after reads a number of seconds, a duration such as 6m0s, a date, or a number of seconds or milliseconds since 1970.
func after(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if s, rest := lasting(text); rest == "" {
		switch {
		case s >= 1e12:
			s = s/1000 - float64(now.UnixMilli())/1000
		case s >= 1e9:
			s -= float64(now.UnixMilli()) / 1000
		}
		return meant(s)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return 0
	}
	return meant(at.Sub(now).Seconds())
}

// lasting reads a duration at the beginning of a text, such as 1.5, 6m0s or 8 hours 24 minutes, in seconds, and returns the rest.
func lasting(text string) (s float64, rest string) {
	for {
		unit := strings.TrimLeft(text, "0123456789.")
		n, err := strconv.ParseFloat(strings.TrimRight(text[:len(text)-len(unit)], "."), 64)
		if err != nil {
			return s, text
		}
		unit = strings.TrimPrefix(unit, " ")
		rest := strings.TrimLeft(unit, "abcdefghijklmnopqrstuvwxyz")
		switch unit = unit[:len(unit)-len(rest)]; {
		case strings.HasPrefix(unit, "ms") || strings.HasPrefix(unit, "milli"):
			n /= 1000
		case unit == "" || unit[0] == 's':
		case unit[0] == 'm':
			n *= 60
		case unit[0] == 'h':
			n *= 3600
		case unit[0] == 'd':
			n *= 24 * 3600
		default:
			return s, text
		}
		s += n
		text = strings.TrimPrefix(rest, " ")
	}
}

// hint is the wait that the text of a refusal asks for, or follows from the figures in it as OpenAI writes them; 0 is none.
func hint(text string) time.Duration {
	text = strings.ToLower(text)
	for _, words := range [...]string{"try again in ", "retry in ", "retry after ", "try again after ", "please wait "} {
		if i := strings.LastIndex(text, words); i >= 0 {
			s, _ := lasting(text[i+len(words):])
			return meant(s)
		}
	}
	_, rest, _ := strings.Cut(text, ": limit ")
	limit, rest := lasting(rest)
	used, rest := lasting(strings.TrimPrefix(rest, ", used "))
	requested, _ := lasting(strings.TrimLeft(strings.TrimPrefix(rest, ", requested"), " ~"))
	if limit <= 0 || !strings.Contains(text, "per min") {
		return 0
	}
	return meant((used + requested - limit) / limit * 60)
}
