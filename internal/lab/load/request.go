package load

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// textLength is the length of the text that prompts are cut from. bytesPerToken is the size of a
// token, about; for llmgov mock it is exact.
const (
	textLength    = 1 << 16
	bytesPerToken = 4
)

// words are the text of prompts. It needs no escapes in JSON.
var words = func() string {
	list := strings.Fields("time person year way day thing man world life hand part child eye woman place work week case point company number group problem fact")
	rng := randomStream(0, 0, streamCalls)
	var b strings.Builder
	for b.Len() < textLength {
		b.WriteString(list[rng.IntN(len(list))])
		b.WriteByte(' ')
	}
	return b.String()[:textLength]
}()

// prompt writes a text of so many tokens. Its beginning differs from call to call, so that
// servers find little of it in their caches.
func (c *Call) prompt(b *bytes.Buffer) {
	at := int(c.Luck * textLength)
	for n := int(c.Prompt) * bytesPerToken; n > 0; at = 0 {
		piece := words[at:min(at+n, textLength)]
		b.WriteString(piece)
		n -= len(piece)
	}
}

// body is the request's body.
func (t *Tenant) body(c *Call) []byte {
	var b bytes.Buffer
	b.Grow(int(c.Prompt)*bytesPerToken + 256)
	b.WriteString(`{"model":`)
	b.WriteString(strconv.Quote(t.Model))
	if t.Path == Chat || t.Path == Messages {
		b.WriteString(`,"messages":[{"role":"user","content":"`)
		c.prompt(&b)
		b.WriteString(`"}]`)
	} else {
		b.WriteString(`,"input":"`)
		c.prompt(&b)
		b.WriteString(`"`)
	}
	if t.Path != Embeddings {
		t.answerWanted(&b, c)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// answerWanted writes the bound of the answer, and whether it is streamed.
func (t *Tenant) answerWanted(b *bytes.Buffer, c *Call) {
	declared := c.Output
	if t.MaxTokens != 0 {
		declared = t.MaxTokens
		b.WriteString(`,"mock":{"output_tokens":`)
		b.WriteString(strconv.FormatInt(c.Output, 10))
		b.WriteByte('}')
	}
	bound := "max_tokens"
	if t.Path == Responses {
		bound = "max_output_tokens"
	}
	if declared != Unsaid {
		fmt.Fprintf(b, `,"%s":%d`, bound, declared)
	}
	if c.Stream {
		b.WriteString(`,"stream":true`)
		if t.Path == Chat {
			b.WriteString(`,"stream_options":{"include_usage":true}`)
		}
	}
}

// request is one attempt at a call.
func (t *Tenant) request(ctx context.Context, base string, body []byte, try int) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+paths[t.Path], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"llmgov-load"}}
	switch {
	case t.Key == "":
	case t.Path == Messages:
		req.Header["X-Api-Key"] = []string{t.Key}
	default:
		req.Header["Authorization"] = []string{"Bearer " + t.Key}
	}
	if t.Path == Messages {
		req.Header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	if t.Retry != RetryNone {
		// As OpenAI's libraries do. A gateway that keeps places recognises callers by it.
		req.Header["X-Stainless-Retry-Count"] = []string{strconv.Itoa(try)}
	}
	return req, nil
}
