package streaming

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inSteps cuts a text into pieces of equal size.
func inSteps(in []byte, step uint16) (pieces [][]byte) {
	for rest := in; len(rest) > 0; {
		n := min(int(step)+1, len(rest))
		pieces = append(pieces, rest[:n])
		rest = rest[n:]
	}
	return pieces
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\ndata: b\n\n"), uint16(3), uint16(0))
	f.Add([]byte("\ufeffevent: x\rdata\r\r"), uint16(9), uint16(6))
	for _, st := range corpus(f, ".sse") {
		f.Add(st.in, uint16(7), uint16(st.maxEvent))
	}
	f.Fuzz(func(t *testing.T, in []byte, step, limit uint16) {
		pieces := inSteps(in, step)
		got, raw := scan(&Scanner{}, pieces...)
		if diff := cmp.Diff(oracle(string(in)), got); diff != "" && len(in) < DefaultMaxEvent {
			t.Fatalf("events (-want +got):\n%s", diff)
		}
		if !bytes.Equal(raw, in) {
			t.Fatalf("raw bytes %q, want %q", raw, in)
		}
		_, raw = scan(&Scanner{MaxEvent: int(limit)}, pieces...)
		if !bytes.Equal(raw, in) {
			t.Fatalf("MaxEvent %d: raw bytes %q, want %q", limit, raw, in)
		}
		var m Meter
		for _, b := range got {
			m.Observe([]byte(b.Name), []byte(b.Data))
		}
		checkUsage(t, &m)
	})
}

func checkUsage(t *testing.T, m *Meter) {
	if u, _ := m.Usage(); u.Reasoning > u.Output || u.CachedInput+u.CacheWrite+u.CacheWriteHour+u.AudioInput+u.ImageInput > u.Input || u.AudioOutput+u.ImageOutput > u.Output ||
		min(u.Input, u.CachedInput, u.CacheWrite, u.CacheWriteHour, u.Output, u.Reasoning, u.AudioInput, u.AudioOutput, u.ImageInput, u.ImageOutput, u.Tools) < 0 {
		t.Fatalf("usage %+v", u)
	}
}

// FuzzBody: how a stream is cut into pieces changes nothing, nor does the room that its reader has.
func FuzzBody(f *testing.F) {
	for _, st := range corpus(f, ".sse") {
		f.Add(st.in, uint16(7), uint16(st.maxEvent), st.withheld > 0)
		f.Add(st.in[:len(st.in)*2/3], uint16(90), uint16(50), false)
	}
	for _, layout := range append(framed, frameless...) {
		event := laidOut(layout, chatChunk)
		f.Add([]byte(event+event+laidOut(layout, parts[0].data)+event), uint16(300), uint16(0), false)
	}
	chunk := laidOut(framed[0], chatChunk)
	for _, before := range []string{"", "data:}\r\r", chunk} {
		for _, behind := range []string{"\n", ": still there\n\n", "data:}\r\r", chunk, chunk + chunk} {
			f.Add([]byte(before+"data: [DONE]\n\n"+behind), uint16(7), uint16(0), true)
			f.Add([]byte(before+"data: [DONE]\n\n"+behind), uint16(7), uint16(90), false)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, step, limit uint16, withhold bool) {
		play := func(size int, pieces ...[]byte) (out string, res Result) {
			body := NewBody(&script{pieces: pieces}, Options{
				WithholdUsage: withhold, MaxEvent: int(limit), ErrorEvent: errorEvent, End: func(r Result) { res = r },
			})
			out = drain(t, body, size)
			body.Close()
			return out, res
		}
		if len(in) == 0 || len(in) > readSize {
			return
		}
		want, wantRes := play(1<<10, in)
		if got, res := play(32<<10, inSteps(in, 0)...); got != want || res != wantRes {
			t.Fatalf("byte by byte: %q, %+v\nat once: %q, %+v", got, res, want, wantRes)
		}
		for _, size := range []int{1 << 10, readSize, 32 << 10} {
			got, res := play(size, inSteps(in, step)...)
			if got != want || res != wantRes {
				t.Fatalf("in pieces of %d, read by %d: %q, %+v\nat once: %q, %+v", int(step)+1, size, got, res, want, wantRes)
			}
		}
	})
}

// usageOracle reads usage as encoding/json sees it. ok is false where a count is written as a string, a fraction or a power of ten.
func usageOracle(object map[string]json.RawMessage) (u Usage, reported, ok bool) {
	plain := true
	get := func(m map[string]json.RawMessage, name string) int64 {
		var n int64
		raw, ok := m[name]
		plain = plain && !bytes.ContainsAny(raw, `.eE"`)
		if !ok || string(raw) == "null" || json.Unmarshal(raw, &n) != nil || n < 0 || n > maxTokens || raw[0] == '-' {
			return -1
		}
		return n
	}
	sub := func(name string) (m map[string]json.RawMessage) {
		if json.Unmarshal(object[name], &m) != nil {
			return nil
		}
		return m
	}
	either := func(a, b string) int64 {
		if n := get(object, a); n > 0 {
			return n
		}
		return max(get(object, a), get(object, b))
	}
	in := either("prompt_tokens", "input_tokens")
	out := either("completion_tokens", "output_tokens")
	total := get(object, "total_tokens")
	if in < 0 && out < 0 && total < 0 {
		return Usage{}, false, plain
	}
	p := sub("prompt_tokens_details")
	c := sub("completion_tokens_details")
	read := max(0, get(object, "cache_read_input_tokens"))
	written := max(0, get(object, "cache_creation_input_tokens"))
	u = Usage{Input: max(0, in), Output: max(0, out), Reasoning: max(0, get(c, "reasoning_tokens"))}
	anthropic := in >= 0 && get(object, "prompt_tokens") < 0 && p == nil
	if read+written > u.Input || total > 0 && total >= u.Input+u.Output+read+written || total <= 0 && anthropic {
		u.Input += read + written
	}
	audio := [2]int64{max(0, get(p, "audio_tokens")), max(0, get(c, "audio_tokens"))}
	image := [2]int64{max(0, get(p, "image_tokens")), max(0, get(c, "image_tokens"))}
	hour := max(0, get(sub("cache_creation"), "ephemeral_1h_input_tokens"))
	if in <= 0 && read+written == 0 {
		audio[0] = 0
		image[0] = 0
		written = 0
		hour = 0
	} else {
		written = max(written, get(p, "cache_write_tokens"), get(p, "cache_creation_tokens"))
		u.CachedInput = max(read, get(p, "cached_tokens"), get(object, "cached_tokens"), get(object, "prompt_cache_hit_tokens"))
	}
	if out <= 0 {
		audio[1] = 0
		image[1] = 0
	}
	if rest := total - u.Input - u.Output; rest > 0 && (u.Input == 0 || out < 0) {
		u.Input += rest
	} else if rest > 0 {
		u.Output = u.Output + rest
		u.Reasoning = max(u.Reasoning, rest)
	}
	u.CachedInput = min(u.CachedInput, u.Input)
	u.Reasoning = min(u.Reasoning, u.Output)
	rest := u.Input - u.CachedInput
	written = min(written, rest)
	u.CacheWriteHour = min(hour, written)
	u.CacheWrite = written - u.CacheWriteHour
	u.AudioInput = min(audio[0], rest-written)
	u.ImageInput = min(image[0], rest-written-u.AudioInput)
	u.AudioOutput = min(audio[1], u.Output)
	u.ImageOutput = min(image[1], u.Output-u.AudioOutput)
	u.Tools = max(0, get(sub("server_tool_use"), "web_search_requests"), get(object, "num_search_queries"))
	return u, true, plain
}

// oracleUsage is what a document's top-level usage says; ok is false when the oracle has no opinion: keys
// written with escapes, two members of the same name told apart by order, usage in other places, no JSON object.
func oracleUsage(data []byte) (u Usage, reported, ok bool) {
	s := string(data)
	for _, no := range []string{`\`, "put_tokens_details", "put_token_details", "cached_tokens_details", "iterations", "response", "message", "x_groq", "timings", `"batch"`, "tier", "speed", "raffic", "extra_properties", "web_search_call"} {
		if strings.Contains(s, no) {
			return u, false, false
		}
	}
	for _, once := range []string{`"usage"`, `"prompt_tokens_details"`, `"completion_tokens_details"`, "cache_write_tokens", "cache_creation_tokens"} {
		if strings.Count(s, once) > 1 {
			return u, false, false
		}
	}
	var doc, object map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil || doc == nil {
		return u, false, false
	}
	if json.Unmarshal(doc["usage"], &object) == nil && object != nil {
		return usageOracle(object)
	}
	if strings.Contains(s, `"usage"`) {
		return u, false, false // in a choice, perhaps
	}
	return u, false, true
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`))
	f.Add([]byte(`{"a":[{"usage":{"prompt_tokens":1}}],"usage": {"input_tokens":1}}`))
	f.Add([]byte(`{"usage":{"total_tokens":4e0}}`))
	for _, ending := range []string{".sse", ".json"} {
		for _, st := range corpus(f, ending) {
			for _, b := range oracle(string(st.in)) {
				f.Add([]byte(b.Data))
			}
			f.Add(st.in)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Meter
		kind := m.Observe(nil, data)
		checkUsage(t, &m)
		want, reported, ok := oracleUsage(data)
		if !ok {
			return
		}
		if kind == Opaque {
			t.Fatalf("%s: valid, but not understood", data)
		}
		reported = reported && (m.Deltas() == 0 || want.Input+want.Output > 0 && !m.counts.noAnswer())
		if got, gotOK := m.Usage(); got != want || gotOK != reported {
			t.Fatalf("%s: got %+v, %v; want %+v, %v", data, got, gotOK, want, reported)
		}
	})
}

func FuzzWhole(f *testing.F) {
	f.Add([]byte(`{"a":{"usage":{"prompt_tokens":9}},"usage":{"prompt_tokens":1}}`), uint8(0))
	f.Add([]byte(`[1,"usage"]`), uint8(1))
	f.Add([]byte(`{"usage":{"prompt_tokens":1},"service_tier":"flex"`), uint8(3))
	for _, st := range corpus(f, ".json") {
		f.Add(st.in, uint8(4))
	}
	f.Fuzz(func(t *testing.T, doc []byte, step uint8) {
		var res Result
		w := NewWhole(&script{pieces: inSteps(doc, uint16(step))}, WholeOptions{End: func(r Result) { res = r }})
		out, err := io.ReadAll(w)
		if !bytes.Equal(out, doc) || err != nil {
			t.Fatalf("got %q, %v", out, err)
		}
		once := find(64<<10, doc)
		u, ok := ReadUsage(once.found)
		if tier := once.tier.bytes(); len(tier) > 0 {
			u.Tier = ReadTier(string(tier))
		}
		if string(once.object.bytes()) != "batch" && (u != res.Usage || ok != res.Reported && (res.Reported || u.Output > 0)) {
			t.Fatalf("in pieces %+v, at once %+v", res, u)
		}
		if want, reported, ok := oracleUsage(doc); ok && (res.Usage != want || reported != res.Reported && (res.Reported || want.Output > 0)) {
			t.Fatalf("got %+v, want %+v, %v", res, want, reported)
		}
	})
}

// TestLargeEventsAreReadInPassing: what typed events tell does not depend on the bound on an event, wherever they
// are cut. Of the deltas only those of a chat are missing.
func TestLargeEventsAreReadInPassing(t *testing.T) {
	for _, st := range corpus(t, ".sse") {
		family, _, _ := strings.Cut(st.name, "_")
		if !strings.Contains("anthropic responses image transcription speech", family) || st.want.Cause == Truncated {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for i := range st.cuts(len(st.in) + 1) {
				var res Result
				body := NewBody(&script{pieces: inTwo(st.in, i)}, Options{MaxEvent: 8, End: func(r Result) { res = r }})
				if got := drain(t, body, readSize); got != string(st.in) {
					t.Fatalf("cut at byte %d: got %q", i, got)
				}
				body.Close()
				res.Deltas = st.want.Deltas
				if res != st.want {
					t.Fatalf("cut at byte %d: got %+v, want %+v", i, res, st.want)
				}
			}
		})
	}
}

func TestFinderOfEvents(t *testing.T) {
	tests := []struct{ doc, found, kind string }{
		{`{"type":"a","response":{"usage":{"b":1},"type":"c"},"d":1}`, `{"b":1}`, "a"},
		{`{"response":{"e":{"usage":{"b":1}},"usage":null},"type":"a"}`, ``, "a"},
		{`{"response":{"message":{"usage":{"b":1}}}}`, ``, ""},
		{`{"response":[{"usage":{"b":1}}],"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":{"usage":{"b":1}},"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":"x","usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"message":{},"usage":{"b":2}}`, `{"b":2}`, ""},
		{`{"response":{"response":{"usage":{"b":1}}},"type":"` + strings.Repeat("a", 49) + `"}`, ``, ""},
		{`{"response":{"usage":{"b":{"usage":{"c":1}}}}}`, `{"b":{"usage":{"c":1}}}`, ""},
		{`{"type":{"type":"a"},"x":{"type":"b"}}`, ``, ""},
		{`{"type":"a","type":"bc"}`, ``, "bc"},
	}
	for _, tt := range tests {
		for i := range len(tt.doc) + 1 {
			f := finder{limit: 99, envelopes: true}
			f.feed([]byte(tt.doc[:i]))
			f.feed([]byte(tt.doc[i:]))
			if string(f.found) != tt.found || string(f.kind.bytes()) != tt.kind || f.state != behind {
				t.Errorf("%s cut at byte %d: found %s of kind %q", tt.doc, i, f.found, f.kind.bytes())
			}
		}
	}
}
