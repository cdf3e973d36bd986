package upstreams

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/objects"
)

// However much an answer shows, little of it is held and remembered, and all of it is metered and passed
// on.
func TestAudit_L12_LargeAnswers(t *testing.T) {
	var items strings.Builder
	for i := range 20_000 {
		items.WriteString(`{"id":"item_` + strconv.Itoa(i) + `"},`)
	}
	many := `{"id":"resp_1","output":[` + items.String() + `{}],"usage":{"input_tokens":7,"output_tokens":500,"total_tokens":507}}`
	large := strings.Replace(many, `{"id"`, `{"padding":"`+strings.Repeat("x", 17<<20)+`","id"`, 1)
	for name, tt := range map[string]struct {
		answer   string
		recorded bool
	}{"many": {many, true}, "large": {large, false}} {
		store := sockets.OpenObjects(t, "")
		s := sockets.New(t, sockets.World{Objects: store, Upstream: http.HandlerFunc(evil(200, tt.answer, "Content-Type", "application/json"))})
		reply := s.Post("/v1/responses", `{"model":"gpt-4o","input":"x"}`)
		if reply.Err != nil || reply.Body != tt.answer {
			t.Errorf("%s: %d bytes of %d arrive, %v", name, len(reply.Body), len(tt.answer), reply.Err)
		}
		s.WaitIdle()
		if took := s.Charged("output"); took != 500 {
			t.Errorf("%s: %d tokens are charged", name, took)
		}
		known := func(id string) bool {
			_, ok := store.Owner(objects.Key{Upstream: "up", ID: id})
			return ok
		}
		if known("resp_1") != tt.recorded || known("item_998") != tt.recorded || known("item_1000") || known("item_19999") {
			t.Errorf("%s: recorded are the response %v and the items 998, 1000, 19999 %v %v %v",
				name, known("resp_1"), known("item_998"), known("item_1000"), known("item_19999"))
		}
	}
}
