package readers

import (
	"cmp"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// document is a JSON body as a reader has it.
type document = map[string]any

// bodyPaths are the routes to which bodies are sent, and their own bounds.
var bodyPaths = map[string][]string{
	"/chat/completions": {"max_completion_tokens", "max_tokens"},
	"/completions":      {"max_tokens"},
	"/responses":        {"max_output_tokens"},
	"/messages":         {"max_tokens"},
	"/embeddings":       nil,
}

// bodySeeds are bodies that were tried by hand.
var bodySeeds = []string{
	`{"model":"ok","max_tokens":5}`,
	`{"model":"ok","model":"bad"}`, `{"model":"bad","model":"ok"}`, `{"model":"ok","\u006dodel":"bad"}`, `{"model":"ok","Model":"bad"}`,
	`{"model":"ok","max_tokens":5000,"n":100}`, `{"model":"ok","max_tokens":1,"max_to\u212aens":5000}`, `{"model":"ok","max_tokens":1e3}`,
	`{"model":"ok","extra_body":{"max_tokens":5000,"n":500,"stream":true}}`, `{"model":"ok","extra_body":{"model":"bad"}}`,
	`{"model":"ok","tools":[{"type":"image_generation"}]}`, `{"model":"ok","tools":[{"type":"advisor_20260301"}]}`,
	`{"model":"ok","tools":[{"type":"image_generation","model":"bad"}]}`, `{"model":"ok","tools":[{"type":"image_generation","model":"ok","model":null}]}`,
	`{"model":"ok","models":["ok","bad"]}`, `{"model":"ok","fallbacks":[{"model":"ok","model":"bad"}]}`,
	"\xef\xbb\xbf{\"model\":\"ok\"}", `{"model":"ok"} {"model":"bad"}`, `{"model":"ok",}`, `{"model":"ok","x":NaN}`, `{"model":"ok","n":01}`,
	"{\"model\":\"ok\"}\x00{\"model\":\"bad\"}", `{"model":"ok\u0000"}`, `{"model":"\ud800ok"}`, `{"model":"ok","__proto__":{"model":"bad"}}`,
	`{"model":"ok","file_id":"theirs"}`, `{"model":"ok","file\u005fid":"theirs"}`, `{"model":"ok","file_id":"mine","file_id":"theirs"}`,
	`{"model":"ok","previous_response_id":"theirs","stream":true}`, `{"model":"ok","messages":[{"audio":{"id":"theirs"}}]}`,
	`{"model":"ok","input":[{"id":"theirs"}]}`, `{"model":"ok","input":[{"type":"item_reference","id":"mine"},{"type":"message","id":"theirs"}]}`,
}

// TestBodies compares what readers make of bodies as they are forwarded.
func TestBodies(t *testing.T) {
	gw := newFront(t)
	var processes []*process[document]
	if *installed {
		processes = []*process[document]{
			start[document](t, "new/.venv/bin/python", "bodies.py"),
			start[document](t, node(), "bodies.mjs"),
		}
	}
	next := toTry(t, bodySeeds, "bodies", randomBody)
	n := &tally{}
	for more := true; more; {
		var trials []trial
		for len(trials) < 64 && more {
			var body []byte
			body, more = next()
			if !more {
				break
			}
			for path := range bodyPaths {
				n.sent++
				if sent := gw.send(path, "application/json", body); sent != nil {
					trials = append(trials, trial{path, body, sent.body})
				}
			}
		}
		n.accepted += len(trials)
		for i, found := range readAll(t, processes, texts(trials)) {
			n.compareBodies(t, trials[i], found)
		}
	}
	n.report(t)
}

// toTry returns the seeds, the corpus of that name, and then random ones until the time is over.
func toTry(t *testing.T, seeds []string, name string, made func(*rand.Rand) string) func() ([]byte, bool) {
	list := slices.Concat(seeds, corpus(t, name))
	random := rand.New(rand.NewSource(*seed))
	until := time.Now().Add(*duration)
	return func() ([]byte, bool) {
		if len(list) > 0 {
			body := list[0]
			list = list[1:]
			return []byte(body), true
		}
		if !*installed || time.Now().After(until) {
			return nil, false
		}
		return mutated(random, []byte(made(random))), true
	}
}

// compareBodies reports where readers differ, or see more than is granted.
func (n *tally) compareBodies(t *testing.T, tr trial, found map[string]reading[document]) {
	t.Helper()
	var first map[string]any
	var firstName string
	for _, name := range sortedKeys(found) {
		r := found[name]
		n.readings++
		if r.Error != "" { // a reader that refuses is no way past the gateway
			n.refused++
			continue
		}
		decides := decisive(r.Read)
		if first == nil {
			first = decides
			firstName = name
		}
		if problem := cmp.Or(beyond(tr.path, r.Read), unseen(tr.path, r.Read), governed(t, tr.made, r.Read)); problem != "" {
			n.differs(t, tr, name, problem)
		} else if !reflect.DeepEqual(first, decides) {
			n.differs(t, tr, name, fmt.Sprintf("%v, while %s reads %v", decides, firstName, first))
		}
	}
}

// deciding are the keys that decide about a call.
var deciding = []string{
	"model", "stream", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "background", "store", "conversation", "route",
}

// holding are the keys of values in which something decides: how many there are, or some keys of theirs.
var holding = []string{"prompt", "models", "fallbacks", "stream_options", "tools", "plugins", "extra_body", "providerOptions"}

// decisive is what decides in a document, under whatever case of a key.
func decisive(d document) map[string]any {
	found := map[string]any{"models named": modelsOf(d)}
	for key, value := range d {
		for _, name := range deciding {
			if strings.EqualFold(key, name) {
				found[key] = value
			}
		}
	}
	if prompts, ok := d["prompt"].([]any); ok {
		found["prompts"] = len(prompts)
	}
	if options, ok := d["stream_options"].(document); ok {
		found["include_usage"] = options["include_usage"]
	}
	if extra, ok := d["extra_body"].(document); ok {
		found["extra_body"] = decisive(extra)
	}
	return found
}

// beyond says what in a document is beyond the tenant's grant.
func beyond(path string, d document) string {
	if d["model"] != granted {
		return fmt.Sprintf("the model %v", d["model"])
	}
	for _, model := range modelsOf(d) {
		if model != granted {
			return fmt.Sprintf("the model %v", model)
		}
	}
	bounded := bodyPaths[path] == nil
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		value, there := d[name].(float64)
		if bodyPaths[path] != nil && there && value > most {
			return fmt.Sprintf("%s %v", name, value)
		}
		bounded = bounded || there && slices.Contains(bodyPaths[path], name)
	}
	if !bounded {
		return "no bound"
	}
	if extra, ok := d["extra_body"].(document); ok {
		for key := range extra {
			for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "stream"} {
				if strings.EqualFold(key, name) {
					return key + " in extra_body"
				}
			}
		}
	}
	for _, name := range []string{"n", "best_of"} {
		if value, there := d[name].(float64); there && value > 1024 {
			return fmt.Sprintf("%s %v", name, value)
		}
	}
	return ""
}

// modelsOf are the models that a document names besides its own; of tools that must name one, also nil.
func modelsOf(d document) (found []any) {
	list := func(v any) {
		items, _ := v.([]any)
		for _, item := range items {
			if object, ok := item.(document); ok {
				item = object["model"]
			}
			found = append(found, item)
		}
	}
	list(d["models"])
	list(d["fallbacks"])
	found = append(found, toolModels(d["tools"])...)
	found = append(found, toolModels(d["plugins"])...)
	if extra, ok := d["extra_body"].(document); ok {
		if model, there := extra["model"]; there {
			found = append(found, model)
		}
		found = append(found, modelsOf(extra)...)
	}
	return found
}

func toolModels(v any) (found []any) {
	tools, _ := v.([]any)
	for _, tool := range tools {
		object, ok := tool.(document)
		if !ok {
			continue
		}
		kind, _ := object["type"].(string)
		if model, there := object["model"]; there && model != nil || kind == "image_generation" || kind == "advisor" || strings.HasPrefix(kind, "advisor_") {
			found = append(found, model)
		}
		found = append(found, toolModels(object["tools"])...)
	}
	return found
}
