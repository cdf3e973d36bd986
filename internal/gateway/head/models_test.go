package head

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadHead_Others: the models that a body names besides its own, those that may answer in its place with a plus.
func TestReadHead_Others(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`: "",
		`{"models":null,"fallbacks":[],"route":null}`:                                                                     "",
		`{"models":["a","b"],"route":"fallback"}`:                                                                         "+a +b",
		`{"fallbacks":["a",{"model":"b","max_tokens":5}]}`:                                                                "+a +b",
		`{"extra_body":{"models":["a"],"model":"b"}}`:                                                                     "+a +b",
		`{"extra_body":{"tools":[{"type":"t","model":"a"}]}}`:                                                             "a",
		`{"providerOptions":{"gateway":{"order":["x"],"models":["a"]},"openai":{"user":"y"}}}`:                            "+a",
		`{"tools":[{"type":"advisor_20260301","name":"advisor","model":"a"}]}`:                                            "a",
		`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{"type":"string"}}}}}]}`: "",
		`{"tools":[{"type":"function","name":"f","parameters":{"model":"mine","properties":{"model":{"default":"x"}}}}]}`: "",
		`{"tools":[{"type":"openrouter:advisor","parameters":{"model":"a","tools":[{"type":"openrouter:fusion","parameters":{"model":"b","analysis_models":["c","d"]}}]}}]}`: "a b c d",
		`{"tools":[{"type":"namespace","tools":[{"type":"image_generation","model":"a"}]}]}`:                                                                                 "a",
		`{"plugins":[{"id":"web"},{"id":"fusion","model":"a","analysis_models":["b"]}]}`:                                                                                     "a b",
		`{"metadata":{"models":["x"]},"messages":[{"content":"models","models":["x"]}]}`:                                                                                     "",
	} {
		h, err := Read([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		var got []string
		for _, o := range h.Others {
			if o.Instead {
				o.Model = "+" + o.Model
			}
			got = append(got, o.Model)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
		line, err := ReadLine([]byte(`{"url":"/v1/chat/completions","body":`+body+`}`), anyURL)
		if err != nil || len(line.Head.Others) != len(h.Others) {
			t.Errorf("%s in a batch: %+v, %v", body, line, err)
		}
	}
	for body, want := range map[string]string{
		`{"models":"a"}`:                                  "list of models",
		`{"models":["a",4]}`:                              "by strings",
		`{"models":["a"],"models":["b"]}`:                 "twice",
		`{"route":{"a":1,"a":2}}`:                         "must be a string",
		`{"Models":["a"]}`:                                "only by case",
		`{"fallbacks":[{}]}`:                              "names 0",
		`{"fallbacks":[{"Model":"a"}]}`:                   "only by case",
		`{"fallbacks":[{"model":"a","\u004dodel":"b"}]}`:  "names 2",
		`{"fallbacks":[{"model":"a","fallbacks":["b"]}]}`: "not supported there",
		`{"content_policy_fallbacks":[{"a":["b"]}]}`:      "not supported",
		`{"context_window_fallbacks":{"a":"b"}}`:          "not supported",
		`{"data_sources":[{"type":"azure_search"}]}`:      "data_sources: [{\"type\":\"azure_search\"}] is not supported",
		`{"dataSources":[{}]}`:                            "not supported",
		`{"Data_Sources":[{}]}`:                           "only by case",
		`{"extra_body":{"data_sources":[{}]}}`:            "data_sources",
		`{"data_sources":{}}`:                             "not supported",
		`{"extra_body":{"extra_body":{"models":["a"]}}}`:  "holds another",
		`{"extra_body":{"Model":"a"}}`:                    "only by case",
		`{"extra_body":{"model":"a","model":"a"}}`:        "twice",
		`{"tools":[{"type":"t","model":4}]}`:              "by strings",
		`{"tools":[{"type":"openrouter:advisor"}]}`:       "of the provider's choice",
		`{"tools":[{"type":"openrouter:fusion","type":"x","parameters":{"model":"a","type":"y"}}]}`: "of the provider's choice",
		`{"plugins":[{"id":"fusion","preset":"quality"}]}`:                                          "of the provider's choice",
	} {
		if h, err := Read([]byte(body)); err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%s: %+v, %v; want %q", body, h, err, want)
		}
	}
}
