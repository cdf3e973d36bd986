package mock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

const askMessages = `{"model":"m","system":"abcd","messages":[{"role":"user","content":"12345"}],"max_tokens":2`

func TestMessages_Plain(t *testing.T) {
	r := onSocket(t, Config{})
	got := r.post("/v1/messages", askMessages+"}")
	for path, want := range map[string]string{
		"type": "message", "content.0.text": " the quick", "stop_reason": "max_tokens",
		"usage.input_tokens": "10", "usage.output_tokens": "2",
	} {
		if got.get(path).String() != want {
			t.Errorf("%s is %q, want %q in %s", path, got.get(path).String(), want, got.body)
		}
	}
	for body, want := range map[string]string{
		askMessages + `,"mock":{"error_status":503}}`: "503 error api_error",
		askMessages + `,"mock":{"error_status":429}}`: "429 error rate_limit_error",
		`{"model":"m","max_tokens":2}`:                "400 error invalid_request_error",
	} {
		got := r.post("/v1/messages", body)
		if say := fmt.Sprint(got.status, " ", got.get("type").Str, " ", got.get("error.type").Str); say != want {
			t.Errorf("%s: %s, want %s", body, say, want)
		}
	}
}

// Each event in a few words.
func TestMessages_Streams(t *testing.T) {
	r := onSocket(t, Config{})
	start := "message_start 10+1, content_block_start, content_block_delta the, "
	for fields, want := range map[string]string{
		``:                             start + "content_block_delta quick, content_block_stop, message_delta max_tokens +2, message_stop",
		`,"mock":{"usage":"each"}`:     start + "message_delta +1, content_block_delta quick, message_delta +2, content_block_stop, message_delta max_tokens +2, message_stop",
		`,"mock":{"usage":"absent"}`:   "message_start, content_block_start, content_block_delta the, content_block_delta quick, content_block_stop, message_delta max_tokens, message_stop",
		`,"mock":{"error_after":1}`:    start + "error api_error",
		`,"mock":{"output_tokens":1}`:  start + "content_block_stop, message_delta end_turn +1, message_stop",
		`,"stream_options":{"x":true}`: start + "content_block_delta quick, content_block_stop, message_delta max_tokens +2, message_stop",
	} {
		got := r.post("/v1/messages", askMessages+`,"stream":true`+fields+"}")
		var told []string
		for _, e := range events(got.body) {
			d := gjson.Parse(e.data)
			words := []string{d.Get("type").Str}
			for _, path := range []string{"delta.text", "delta.stop_reason", "error.type"} {
				words = append(words, strings.TrimSpace(d.Get(path).Str))
			}
			if u := d.Get("message.usage"); u.Exists() {
				words = append(words, u.Get("input_tokens").Raw+"+"+u.Get("output_tokens").Raw)
			}
			if u := d.Get("usage"); u.Exists() {
				words = append(words, "+"+u.Get("output_tokens").Raw)
			}
			told = append(told, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
		}
		if diff := cmp.Diff(want, strings.Join(told, ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fields, diff)
		}
	}
}

// Where each chunk tells what was used so far, the last one tells it all.
func TestUsage_Each(t *testing.T) {
	r := onSocket(t, Config{Usage: UsageEach})
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody(`"stream":true,"max_tokens":3`),
		"/v1/completions":      `{"model":"m","prompt":"a","stream":true,"max_tokens":3}`,
	} {
		var told []string
		for _, e := range events(r.post(path, body).body) {
			told = append(told, gjson.Get(e.data, "usage.completion_tokens").Raw)
		}
		if got := strings.Join(strings.Fields(strings.Join(told, " ")), " "); got != "1 2 3 3" {
			t.Errorf("%s tells %s", path, got)
		}
	}
}
