package streaming

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow is an upstream whose pieces come a while after the one before was read. Read is ready when Wait was called.
type slow struct {
	script
	after   []time.Duration
	broken  chan struct{}
	waiting func()
}

// Wait is found by Body.
func (s *slow) Wait() bool {
	s.waiting()
	after := s.after[0]
	s.after = s.after[1:]
	select {
	case <-time.After(after):
	case <-s.broken:
		s.pieces = nil
		s.err = context.Canceled
	}
	return true
}

// A Wait is silence of upstream like a Read, and callbacks do not wait for its end.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := false
		waits := 0
		up := &slow{
			script: script{pieces: hundred()[:3]},
			after:  []time.Duration{9 * time.Second, 9 * time.Second, time.Hour},
			broken: make(chan struct{}),
			waiting: func() {
				waits++
				if began != (waits > 1) {
					t.Errorf("wait %d begins; the first part was announced: %t", waits, began)
				}
			},
		}
		var res Result
		body := NewBody(up, Options{
			Idle:      10 * time.Second,
			Interrupt: func(error) { close(up.broken) },
			First:     func() { began = true },
			End:       func(r Result) { res = r },
		})
		start := time.Now()
		var got strings.Builder
		p := make([]byte, 4<<10)
		for {
			body.Wait()
			n, err := body.Read(p)
			got.Write(p[:n])
			if err != nil {
				break
			}
		}
		if want := string(hundred()[0]) + string(hundred()[1]); got.String() != want {
			t.Errorf("got %q", got.String())
		}
		if took := time.Since(start); res.Cause != IdleTimeout || res.Deltas != 2 || took != 28*time.Second {
			t.Errorf("after %v: %+v", took, res)
		}
	})
}

// Nothing waits for upstream while something is there to be read, or when all is over.
func TestWaitsForNothing(t *testing.T) {
	waits := 0
	up := &slow{script: script{pieces: hundred()}, after: make([]time.Duration, 1000), waiting: func() { waits++ }}
	body := NewBody(up, Options{})
	p := make([]byte, 10) // less than an event
	reads := 0
	for err := error(nil); err == nil; {
		body.Wait()
		_, err = body.Read(p)
		reads++
	}
	if pieces := len(hundred()); waits > pieces+1 || reads < 10*pieces {
		t.Errorf("%d waits for %d pieces, in %d reads", waits, pieces, reads)
	}
	before := waits
	atEnd := body.Wait()
	body.Close()
	if !atEnd || !body.Wait() || waits > before {
		t.Error("upstream is waited for after its end")
	}
	if NewBody(&script{}, Options{}).Wait() {
		t.Error("an upstream that cannot wait was waited for")
	}
}

// An event that came along with the one before is not waited for, even if that one filled all the room there was.
func TestWaitsForNoEventThatIsThere(t *testing.T) {
	event := "data: {}\n\n"
	up := &slow{script: script{pieces: [][]byte{[]byte(event + event)}}, after: make([]time.Duration, 1), waiting: func() {}}
	body := NewBody(up, Options{})
	defer body.Close()
	for range 2 {
		body.Wait()
		p := make([]byte, len(event))
		if n, err := body.Read(p); string(p[:n]) != event || err != nil {
			t.Errorf("%q, %v", p[:n], err)
		}
	}
}

// What an answer is shows from its beginning, and an error in place of an answer once more at its end, for those who do not look.
func TestLook(t *testing.T) {
	for text, want := range map[string]Nature{
		"":                                 Plain,
		" \n":                              Plain,
		`[1]`:                              Plain,
		`[{"index":0,"score":0.5}]`:        Plain,
		"[\n{\"error\":{\"code\":503}}\n]": Wrong,
		`{}`:                               Empty,
		`{"id":"x","object":"chat.completion","choices":null,"created":1}`: Empty,
		`{"object":"response"}`:                      Plain, // it may have its answer later
		`{"id":"x","embedding":[1]}`:                 Plain, // whatever it is
		`{"model":"m","message":{"content":"x"}}`:    Plain,
		`{"choices":[],"usage":{"prompt_tokens":1}}`: Plain,
		`{"audio":"AAAA","format":"wav"}`:            Plain,
		`{"generated_text":""}`:                      Plain,
		`{"status":"ok"}`:                            Empty,
		`{"input_tokens":0}`:                         Plain,
		`{"code":0}`:                                 Empty,
		`{"object":"list","data":[]}`:                Plain,
		`{"choices":[{"finish_reason":"error"}]}`:    Wrong,
		`{"choices":[{"message":{"content":""}}, {"error" : {"code":502}}],"usage":{"completion_tokens":0}}`: Wrong,
		`{"object":"chat.completion","choices":[{"message":{"content":""},"error":"x"}]}`:                    Wrong,
		`{"choices":[{"finish_reason":"error","text":"x"}],"usage":{"completion_tokens":1}}`:                 Plain, // in part
		`{"choices":[{}]}`: Empty,
		`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[ ]},"finish_reason":null}]}`: Empty,
		`{"choices":[{"message":{"role":"assistant","content":null}}],"usage":{"prompt_tokens":3}}`:                     Plain,
		`{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`:                            Plain,
		`{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"x"}]}}]}`:                                      Plain,
		`{"choices":[{"error":{"message":"x","code":1}}],"usage":{"completion_tokens":1}}`:                              Wrong,
		`{"choices":[{"text":"error","error":null}],"finish_reason":"error"}`:                                           Plain,
		`{"choices":[{"message":{"error":"x","finish_reason":"error"}}]}`:                                               Plain,
		"\ufeff {\"error\":{\"message\":\"x\"}}":                                                                        Wrong,
		`{"error":"x"}`:                                                                                                 Wrong,
		`{"error":true}`:                                                                                                Wrong,
		`{"type":"error","request_id":"r","error":{"type":"api_error"}}`:                                                Wrong,
		`{"object":"error","message":"x","code":404}`:                                                                   Wrong,
		`{"id":null,"choices":null,"error":{"code":1}}`:                                                                 Wrong,
		`{"detail":"x"}`: Wrong,
		`{"errors":["x"],"success":false,"result":null}`:                              Wrong,
		`{"error_code":336003,"error_msg":"x"}`:                                       Wrong,
		`{"base_resp":{"status_code":1004},"choices":null}`:                           Wrong,
		`{"id":"x","choices":[],"error":{"code":1}}`:                                  Wrong,
		`{"error":null,"choices":[]}`:                                                 Empty,
		`{"error":{"code":1},"choices":[{"text":"x"}]}`:                               Plain,
		`{"object":"chat.completion","error":{"code":1},"usage":{"prompt_tokens":1}}`: Wrong,
		`{"object":"response","error":{"code":"x"`:                                    Plain,
		`{"type":"message","content":[],"message":"x"}`:                               Plain,
		`{"input_tokens":5,"message":"x"}`:                                            Plain,
		`{"message":"x","code":1`:                                                     Plain, // an answer may follow
		`{"metadata":{"error":"x"},"output":[]}`:                                      Plain,
		`{"x":"\"error\":"}`:                                                          Plain,
		`{"created":1,"url":"https://x/a.png"}`:                                       Plain,
		`{"url":"\u0061"}`:                                                            Plain,
		`{"url":"","id":"x","model":"m","status":"ok","created_at":"2026-01-01"}`:     Empty,
		"data: {}\n\n":   Events,
		"\r\nevent: x\n": Events,
		": ping\n\n":     Events,
		"<html>":         Foreign,
		"data":           Foreign,
	} {
		if got := Look([]byte(text)); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
		if !strings.HasSuffix(text, "}") {
			continue
		}
		var res Result
		_, err := io.Copy(io.Discard, NewWhole(io.NopCloser(strings.NewReader(text)), WholeOptions{End: func(r Result) { res = r }}))
		if err != nil || (res.Cause == UpstreamFailed) != (want == Wrong || strings.Contains(text, "error\",\"text")) || (res.Err == ErrEmpty) != (want == Empty) {
			t.Errorf("%s ends as %v, %v", text, res.Cause, err)
		}
	}
}
