package streaming

import (
	"io"
	"strings"
	"testing"
)

// What an answer is shows from its beginning, and an error in place of an answer once more at its end, for those who do not look.
func TestLook(t *testing.T) {
	for text, want := range map[string]Nature{
		"":                                       Plain,
		" \n":                                    Plain,
		`[1]`:                                    Plain,
		`{}`:                                     Plain,
		"\ufeff {\"error\":{\"message\":\"x\"}}": Wrong,
		`{"error":"x"}`:                          Wrong,
		`{"error":true}`:                         Wrong,
		`{"type":"error","request_id":"r","error":{"type":"api_error"}}`: Wrong,
		`{"object":"error","message":"x","code":404}`:                    Wrong,
		`{"id":null,"choices":null,"error":{"code":1}}`:                  Wrong,
		`{"detail":"x"}`: Wrong,
		`{"errors":["x"],"success":false,"result":null}`:    Wrong,
		`{"error_code":336003,"error_msg":"x"}`:             Wrong,
		`{"base_resp":{"status_code":1004},"choices":null}`: Wrong,
		`{"error":null,"choices":[]}`:                       Plain,
		`{"error":{"code":1},"choices":[{}]}`:               Plain,
		`{"error":{"code":1},"usage":{"prompt_tokens":1}}`:  Plain,
		`{"object":"response","error":{"code":"x"}`:         Plain,
		`{"type":"message","content":[],"message":"x"}`:     Plain,
		`{"input_tokens":5,"message":"x"}`:                  Plain,
		`{"message":"x","code":1`:                           Plain, // an answer may follow
		`{"metadata":{"error":"x"},"output":[]}`:            Plain,
		`{"x":"\"error\":"}`:                                Plain,
		"data: {}\n\n":                                      Events,
		"\r\nevent: x\n":                                    Events,
		": ping\n\n":                                        Events,
		"<html>":                                            Foreign,
		"data":                                              Foreign,
	} {
		if got := Look([]byte(text)); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
		if !strings.HasSuffix(text, "}") {
			continue
		}
		var res Result
		_, err := io.Copy(io.Discard, NewWhole(io.NopCloser(strings.NewReader(text)), WholeOptions{End: func(r Result) { res = r }}))
		if err != nil || (res.Cause == UpstreamFailed) != (want == Wrong) {
			t.Errorf("%s ends as %v, %v", text, res.Cause, err)
		}
	}
}
