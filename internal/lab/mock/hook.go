package mock

import (
	"time"

	"github.com/tidwall/gjson"
)

// fault is a failure in an answer, after a number of tokens of all choices together.
type fault uint8

const (
	faultNone fault = iota
	faultHangup
	faultError
	faultStall
	faultBadSSE
)

// plan is the course of one request: that of Config, changed by the draws of its rates and then by
// the request's own "mock" field.
type plan struct {
	choices int  // number of answers
	length  int  // tokens of each
	natural int  // tokens each would have without a bound
	cut     bool // whether the bound ends it

	pace  pace
	fault fault
	after int // tokens before the fault

	status                int // error to answer with at once; 0 = none
	usage                 string
	noUsage               bool // not even in a plain answer
	crlf, comments, idSSE bool
	timeSSE               bool // the id is the time
}

func (p *plan) total() int { return p.choices * p.length }

// upTo returns the number of tokens before the end or the fault, and which of the two it is.
func (p *plan) upTo() (tokens int, f fault) {
	if p.fault != faultNone && p.after <= p.total() {
		return p.after, p.fault
	}
	return p.total(), faultNone
}

// plan decides the course of call number seq.
func (s *Server) plan(c *call, seq uint64) plan {
	p := plan{
		pace:  pace{first: s.cfg.FirstToken, speed: s.cfg.TokensPerSecond},
		usage: s.cfg.Usage,
	}
	if s.draw(seq, 0) < s.cfg.ErrorRate {
		p.status = 500
	}
	if s.draw(seq, 2) < s.cfg.SlowRate {
		p.pace.pause = s.cfg.SlowChunk
	}
	p.setLength(c, &s.cfg)
	if s.draw(seq, 1) < s.cfg.HangupRate {
		p.fault = faultHangup
		p.after = p.total() / 2
	}
	if c.mock.IsObject() {
		p.hook(c.mock)
	}
	return p
}

// setLength decides the length of the answer: that of the hook, else the request's bound, else
// the server's setting. A tool call is no longer than the setting, so that its arguments are whole
// unless the hook wants them cut.
func (p *plan) setLength(c *call, cfg *Config) {
	usual := cfg.OutputTokens
	if !c.route.isText() {
		p.choices = 1
		return
	}
	p.choices = c.outputs()
	bound := c.bound()
	hooked := c.mock.Get("output_tokens")
	switch {
	case hooked.Type == gjson.Number:
		p.natural = min(max(0, int(hooked.Num)), maxOutput)
	case c.callsShell():
		p.natural = 1
	case bound > 0 && c.callsTool():
		p.natural = min(bound, usual)
	case bound > 0:
		p.natural = maxOutput + 1 // so that the bound ends it
		if cfg.MostOutput > 0 {
			p.natural = cfg.MostOutput
		}
	default:
		p.natural = usual
	}
	p.length = p.natural
	if bound > 0 && p.natural > bound {
		p.length = bound
		p.cut = true
	}
}

// hook reads the "mock" field of a request, documented at the head of the package. It ignores
// members that it does not know.
func (p *plan) hook(m gjson.Result) {
	m.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "error_status":
			if n := v.Int(); n >= 400 && n <= 599 {
				p.status = int(n)
			}
		case "hangup_after":
			p.fault = faultHangup
			p.after = max(0, int(v.Int()))
		case "error_after":
			p.fault = faultError
			p.after = max(0, int(v.Int()))
		case "stall_after":
			p.fault = faultStall
			p.after = max(0, int(v.Int()))
		case "bad_sse":
			if v.Bool() {
				p.fault = faultBadSSE
				p.after = 0
			}
		case "first_token_ms":
			p.pace.first = time.Duration(max(0, v.Num) * float64(time.Millisecond))
		case "token_ms":
			p.pace.speed = 0
			if v.Num > 0 {
				p.pace.speed = 1000 / v.Num
			}
		case "usage":
			if v.Str == UsageChunk || v.Str == UsageFinish || v.Str == UsageEach || v.Str == UsageAbsent {
				p.usage = v.Str
				p.noUsage = v.Str == UsageAbsent
			}
		case "crlf":
			p.crlf = v.Bool()
		case "comments":
			p.comments = v.Bool()
		case "id":
			p.timeSSE = v.Str == "time"
			p.idSSE = v.Bool() || p.timeSSE
		}
		return true
	})
}

// draw returns a number in [0, 1) that depends only on the seed, the number of the request and
// the number of the draw, so that it needs no lock and no draw shifts another. It is the finaliser
// of SplitMix64.
func (s *Server) draw(seq, which uint64) float64 {
	x := s.cfg.Seed + (seq*4+which)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}
