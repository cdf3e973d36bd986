package head

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The names of bounds on routes.
var (
	chatBounds        = []Bound{MaxCompletionTokens, MaxTokens}
	completionsBounds = []Bound{MaxTokens}
	responsesBounds   = []Bound{MaxOutputTokens}
)

// anyURL can be called by batches.
func anyURL(string) bool { return true }

func TestReadHead_Accepts(t *testing.T) {
	type want struct {
		Model   string
		Stream  bool
		Limits  [numBounds]int64
		Present [numBounds]bool
		Copies  int64
		Usage   bool
		Tier    string
	}
	for _, tc := range []struct {
		name, body string
		want       want
	}{
		{"a tier", `{"service_tier":"priority"}`, want{Tier: "priority", Copies: 1}},
		{"a speed", `{"service_tier":"standard_only","speed":"fast"}`, want{Tier: "fast", Copies: 1}},
		{"a usual tier", `{"service_tier":"auto","speed":1.5}`, want{Copies: 1}},
		{"no tier", `{"service_tier":"a b","speed":"` + strings.Repeat("x", 49) + `"}`, want{Copies: 1}},
		{"empty", `{}`, want{Copies: 1}},
		{"plain", `{"model":"m"}`, want{Model: "m", Copies: 1}},
		{"spaces", " \n{ \"model\" :\t\"m\" , \"stream\" : true } ", want{Model: "m", Stream: true, Copies: 1}},
		{"bounds as doubles are written", `{"max_tokens":1e2,"max_completion_tokens":-1.0,"max_output_tokens":2.0,"n":3.00}`, want{Limits: [3]int64{100, noBound, 2}, Present: [3]bool{true, true, true}, Copies: 3}},
		{"null counts as absent", `{"stream":null,"max_tokens":null,"n":null,"stream_options":null}`, want{Present: [3]bool{true}, Copies: 1}},
		{"all bounds", `{"max_tokens":1,"max_completion_tokens":22,"max_output_tokens":1000000000}`, want{Limits: [3]int64{1, 22, 1e9}, Present: [3]bool{true, true, true}, Copies: 1}},
		{"bounds that are none", `{"max_tokens":2147483647,"max_completion_tokens":99999999999999999999,"max_output_tokens":1.7e308}`, want{Limits: [3]int64{noBound, noBound, noBound}, Present: [3]bool{true, true, true}, Copies: 1}},
		{"the larger of n and best_of", `{"n":2,"best_of":5}`, want{Copies: 5}},
		{"usage asked for", `{"stream":true,"stream_options":{"x":1,"include_usage":true}}`, want{Stream: true, Usage: true, Copies: 1}},
		{"usage declined", `{"stream":true,"stream_options":{"include_usage":false}}`, want{Stream: true, Copies: 1}},
		{"escapes in a key", `{"mod\u0065l":"m"}`, want{Model: "m", Copies: 1}},
		{"escapes in a value", `{"model":"\u0067pt\/4"}`, want{Model: "gpt/4", Copies: 1}},
		{"a governed name further down is none", `{"x":{"model":1,"model":2},"messages":[{"max_tokens":"no"}]}`, want{Copies: 1}},
		{"other keys may come twice", `{"seed":"a","seed":"b","Seed":"c"}`, want{Copies: 1}},
		{"brackets in strings do not nest", `{"x":"` + strings.Repeat("[", 5000) + `"}`, want{Copies: 1}},
		{"wide is not deep", `{"x":[` + strings.Repeat("[],", 5000) + `[]]}`, want{Copies: 1}},
		{"as deep as may be", `{"x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`, want{Copies: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, problem := Read([]byte(tc.body))
			if problem != nil {
				t.Fatalf("refused: %s", problem.Message)
			}
			got := want{Model: h.Model, Stream: h.Stream, Copies: h.Copies, Usage: h.streamOptions.includeUsage, Tier: h.Tier}
			for i, f := range h.bounds {
				got.Limits[i] = f.value
				got.Present[i] = f.present
			}
			testkit.Same(t, tc.want, got)
		})
	}
}

func TestReadHead_Refuses(t *testing.T) {
	for _, tc := range []struct{ name, body, param, what string }{
		{"nothing", ``, "", "not valid JSON"},
		{"background", `{"background":1}`, "background", "must be true or false"},
		{"prompt twice", `{"prompt":"a","prompt":["b"]}`, "prompt", "there twice"},
		{"too many answers", `{"n":1024,"prompt":["a","b","c","d","e"]}`, "n", "5120 answers"},
		{"truncated", `{"model":"m"`, "", "not valid JSON"},
		{"trailing comma", `{"model":"m",}`, "", "not valid JSON"},
		{"two documents", `{"model":"m"} {}`, "", "not valid JSON"},
		{"a list", `[{"model":"m"}]`, "", "must be a JSON object"},
		{"a string", `"model"`, "", "must be a JSON object"},
		{"byte order mark", "\xef\xbb\xbf{}", "", "not valid JSON"},
		{"invalid UTF-8", "{\"x\":\"\xff\"}", "", "not valid UTF-8"},
		{"raw line break in a string", "{\"x\":\"a\nb\"}", "", "not valid JSON"},
		{"leading zero", `{"x":01}`, "", "not valid JSON"},
		{"too deep", `{"x":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`, "", "nests deeper"},
		{"open brackets only", strings.Repeat("[", 1<<20), "", "nests deeper"},

		{"model twice", `{"model":"a","model":"b"}`, "model", "twice"},
		{"model twice, escaped", `{"model":"a","\u006dodel":"b"}`, "model", "twice"},
		{"model by case", `{"Model":"a"}`, "model", "only by case"},
		{"long s", `{"ſtream":true}`, "stream", "only by case"},
		{"Kelvin sign", "{\"max_to\u212aens\":5}", "max_tokens", "only by case"},
		{"model is a number", `{"model":4}`, "model", "must be a string"},
		{"model is null", `{"model":null}`, "model", "must be a string"},
		{"model is empty", `{"model":""}`, "model", "must be a string"},
		{"model is too long", `{"model":"` + strings.Repeat("m", 257) + `"}`, "model", "1 to 256"},
		{"stream is a string", `{"stream":"yes"}`, "stream", `not "yes"`},
		{"stream is a number", `{"stream":1}`, "stream", "not 1"},
		{"stream twice", `{"stream":true,"stream":true}`, "stream", "twice"},
		{"bound below 0", `{"max_tokens":-2}`, "max_tokens", "not -2"},
		{"bound with a fraction", `{"max_completion_tokens":1.5}`, "max_completion_tokens", "not 1.5"},
		{"bound beyond float64", `{"max_tokens":1e400}`, "max_tokens", "not 1e400"},
		{"bound that is not whole", `{"max_tokens":1000000000.5}`, "max_tokens", "from 1 to 1000000000"},
		{"as many answers", `{"n":2147483647}`, "n", "from 1 to 1000000000"},
		{"bound in quotes", `{"max_tokens":"12"}`, "max_tokens", `not "12"`},
		{"bound as a list", `{"max_tokens":[12]}`, "max_tokens", "not [12]"},
		{"a long value is cut short", `{"max_tokens":"` + strings.Repeat("é", 100) + `"}`, "max_tokens", "…"},
		{"too many answers", `{"n":1025}`, "n", "at most 1024"},
		{"best_of below 1", `{"best_of":0}`, "best_of", "from 1 to"},
		{"options as a list", `{"stream_options":[]}`, "stream_options", "must be an object"},
		{"options twice", `{"stream_options":{},"stream_options":{}}`, "stream_options", "twice"},
		{"usage twice", `{"stream_options":{"include_usage":true,"include_usage":false}}`, "stream_options", "twice"},
		{"usage twice, escaped", `{"stream_options":{"include_usage":true,"include\u005fusage":false}}`, "stream_options", "twice"},
		{"usage by case", `{"stream_options":{"Include_Usage":true}}`, "stream_options", "only by case"},
		{"usage as a number", `{"stream_options":{"include_usage":1}}`, "stream_options", "not 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, problem := Read([]byte(tc.body))
			if problem == nil {
				t.Fatalf("accepted: %+v", h)
			}
			if problem.Param != tc.param || !strings.Contains(problem.Message, tc.what) {
				t.Errorf("got param %q, %q; want param %q, a message with %q", problem.Param, problem.Message, tc.param, tc.what)
			}
		})
	}
}

func TestAskForUsage(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		withhold         bool
	}{
		{"asked", `{"stream_options":{"include_usage":true}}`, `{"stream_options":{"include_usage":true}}`, false},
		{"no options", `{"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`, true},
		{"empty body", ` { }`, ` {"stream_options":{"include_usage":true} }`, true},
		{"null options", `{"stream_options": null }`, `{"stream_options": {"include_usage":true} }`, true},
		{"empty options", `{"stream_options":{ }}`, `{"stream_options":{"include_usage":true }}`, true},
		{"other options", `{"stream_options":{ "x":[1]}}`, `{"stream_options":{"include_usage":true, "x":[1]}}`, true},
		{"declined", `{"stream_options":{"x":1,"include_usage" : false}}`, `{"stream_options":{"x":1,"include_usage" : true}}`, true},
		{"null", `{"stream_options":{"include_usage":null}}`, `{"stream_options":{"include_usage":true}}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := mustReadHead(t, tc.body)
			edits, withhold := h.AskForUsage(nil)
			if got := string(splice.Copy([]byte(tc.body), edits)); got != tc.want || withhold != tc.withhold {
				t.Errorf("got %s, withhold %v; want %s, %v", got, withhold, tc.want, tc.withhold)
			}
		})
	}
}

func TestClamp(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		bound            int64
	}{
		{"below", `{"max_tokens":5}`, `{"max_tokens":5}`, 5},
		{"at", `{"max_tokens":100}`, `{"max_tokens":100}`, 100},
		{"above", `{"max_tokens": 101 }`, `{"max_tokens": 100 }`, 100},
		{"null is no bound", `{"max_tokens":null}`, `{"max_tokens":100}`, 100},
		{"every one", `{"max_tokens":500,"max_completion_tokens":7,"max_output_tokens":null}`, `{"max_tokens":100,"max_completion_tokens":7,"max_output_tokens":100}`, 100},
		{"what is none", `{"max_tokens":2147483647,"max_completion_tokens":-1}`, `{"max_tokens":100,"max_completion_tokens":100}`, 100},
		{"the route's own", `{"model":"m"}`, `{"max_completion_tokens":100,"model":"m"}`, 100},
		{"the route's own, in an empty body", `{}`, `{"max_completion_tokens":100}`, 100},
		{"another route's name bounds nothing", `{"max_output_tokens":1}`, `{"max_completion_tokens":100,"max_output_tokens":1}`, 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := mustReadHead(t, tc.body)
			chat := chatBounds
			if got := string(splice.Copy([]byte(tc.body), h.Clamp(nil, chat, 100))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := h.Bound(chat); got != tc.bound {
				t.Errorf("the bound is %d, want %d", got, tc.bound)
			}
		})
	}
}

// Every prompt of a completions call gets an answer.
func TestCopiesOfPrompts(t *testing.T) {
	for body, want := range map[string]int64{
		`{"prompt":"x"}`:                   1,
		`{"prompt":[]}`:                    1,
		`{"prompt":["a","b","c"]}`:         3,
		`{"prompt":[1,2,3]}`:               1,
		`{"prompt":[[1,2],[3]],"n":2}`:     4,
		`{"prompt":["a","b"],"best_of":3}`: 6,
	} {
		if got := mustReadHead(t, body).Copies; got != want {
			t.Errorf("%s asks for %d answers, want %d", body, got, want)
		}
	}
}

// A stream of a tenant with a clamp is edited twice at the same place.
func TestClampAndAskForUsage(t *testing.T) {
	body := ` {"model":"m","stream":true}`
	h := mustReadHead(t, body)
	edits, withhold := h.AskForUsage(h.Clamp(nil, completionsBounds, 9))
	want := ` {"max_tokens":9,"stream_options":{"include_usage":true},"model":"m","stream":true}`
	if got := string(splice.Copy([]byte(body), edits)); got != want || !withhold {
		t.Errorf("got %s, withhold %v; want %s", got, withhold, want)
	}
}

func mustReadHead(t *testing.T, body string) *Head {
	t.Helper()
	h, problem := Read([]byte(body))
	if problem != nil {
		t.Fatalf("refused: %s", problem.Message)
	}
	return h
}

// Only the value of the model changes, whatever is around it and whatever else is
// edited.
func TestRename_JSON(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"fast"}`: `{"model":"gpt-4o"}`,
		"{ \"n\" : 1 ,\n\t\"model\"\t:  \"fast\" , \"x\":\"fast\"}\n": "{ \"n\" : 1 ,\n\t\"model\"\t:  \"gpt-4o\" , \"x\":\"fast\"}\n",
		`{"x":{"model":"fast"},"model":"f\u0061st"}`:                  `{"x":{"model":"fast"},"model":"gpt-4o"}`,
		`{"user":"ü\"model\":\"fast\"","model":"fast"}`:               `{"user":"ü\"model\":\"fast\"","model":"gpt-4o"}`,
	} {
		h, err := Read([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := string(splice.Copy([]byte(body), []splice.Edit{h.Rename("gpt-4o")})); h.Model != "fast" || got != want {
			t.Errorf("%s (model %s) becomes\n%s, want\n%s", body, h.Model, got, want)
		}
	}
	h, err := Read([]byte(`{"model":"fast","stream":true,"max_tokens":9}`))
	if err != nil {
		t.Fatal(err)
	}
	edits, _ := h.AskForUsage(h.Clamp(nil, chatBounds, 5))
	got := string(splice.Copy([]byte(`{"model":"fast","stream":true,"max_tokens":9}`), append(edits, h.Rename(`a"b`))))
	if want := `{"stream_options":{"include_usage":true},"model":"a\"b","stream":true,"max_tokens":5}`; got != want {
		t.Errorf("with other edits it becomes\n%s, want\n%s", got, want)
	}
}

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
		testkit.Same(t, want, strings.Join(got, " "), body)
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
