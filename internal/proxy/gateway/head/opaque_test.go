package head

import (
	"strings"
	"testing"
)

// asData looks like references, and like what is refused, in all ways. It is put where a body holds data of the caller's own.
const asData = `{"file_id":"f","file_ids":["f",{"batch_id":"b"}],"Container":"c","container":5,"container_id":"a","container_id":"b","input_file_id":null,` +
	`"previous_response_id":"r","vector_store_id":"v","vector_store_ids":["v"],"part_ids":["p"],"cached_content":"c","skill_id":"s","training_file":"t",` +
	`"type":"item_reference","id":"x","input":[{"id":"y"},{"type":"reasoning","id":"z"}],"audio":{"id":"z"},"model":"m","tools":[{"skills":[{"skill_id":"s"}]}]}`

// asNames are keys of a map by names of the caller's choice.
const asNames = `{"file_id":"f","Container":"c","container":"d","batch_id":5,"training_file":{"type":"x"},"model":"m","audio":{"id":"z"},"type":"item_reference","id":"x"}`

// apis are the places in bodies that OpenAI's and Anthropic's descriptions of their APIs, and those of vLLM, NIM and llama.cpp,
// leave to the caller, where @ stands for data and # for names, and the places where they take ids, where @ stands for one.
var apis = map[string]struct{ opaque, ids []string }{
	"/chat/completions": {
		opaque: []string{
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":@}}]}]}`,
			`{"messages":[{"role":"assistant","function_call":{"name":"f","arguments":@}}]}`,
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":@}}}]}`,
			`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"default":@,"enum":[@],"const":@}},"examples":[@]}}}]}`,
			`{"functions":[{"name":"f","parameters":@}]}`,
			`{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"$defs":@}}}}`,
			`{"response_format":{"type":"json_object","schema":@}}`,
			`{"metadata":@}`,
			`{"logit_bias":@}`,
			`{"chat_template_kwargs":@,"documents":[@],"guided_json":@,"structured_outputs":{"json":@},"nvext":{"guided_json":@}}`,
			`{"extra_body":{"chat_template_kwargs":@,"mm_processor_kwargs":@}}`,
			`{"json_schema":@}`,
		},
		ids: []string{
			`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":@}}]}]}`,
			`{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"file","file":{"file_id":@}}]}]}`,
			`{"messages":[{"role":"assistant","audio":{"id":@}}]}`,
			`{"extra_body":{"google":{"cached_content":@}}}`,
		},
	},
	"/completions":        {opaque: []string{`{"prompt":"x","logit_bias":@,"guided_json":@,"response_format":@}`}},
	"/embeddings":         {opaque: []string{`{"input":"x","metadata":@}`}},
	"/rerank":             {opaque: []string{`{"query":"x","documents":[@,"file_id"]}`}},
	"/moderations":        {opaque: []string{`{"input":[{"type":"text","text":"file_id"}],"metadata":@}`}},
	"/images/generations": {opaque: []string{`{"prompt":"x","metadata":@}`}},
	"/images/edits":       {ids: []string{`{"images":[{"file_id":@}]}`, `{"mask":{"file_id":@}}`}},
	"/audio/speech":       {opaque: []string{`{"input":"x","metadata":@}`}},
	"/responses": {
		opaque: []string{
			`{"input":[{"type":"local_shell_call","call_id":"c","action":{"type":"exec","command":["ls"],"env":@}}]}`,
			`{"input":[{"type":"tool_search_call","call_id":"c","arguments":@}]}`,
			`{"input":[{"type":"function_call","call_id":"c","arguments":@}]}`,
			`{"input":[{"type":"custom_tool_call","call_id":"c","input":@}]}`,
			`{"input":[{"type":"mcp_list_tools","tools":[{"name":"t","input_schema":@,"annotations":@}]}]}`,
			`{"input":[{"type":"tool_search_output","tools":[{"type":"function","name":"f","parameters":@}]}]}`,
			`{"input":[{"type":"file_search_call","results":[{"attributes":@}]}]}`,
			`{"tools":[{"type":"function","name":"f","parameters":@,"output_schema":@}]}`,
			`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":@}]}]}`,
			`{"tools":[{"type":"mcp","server_label":"s","headers":@}]}`,
			`{"text":{"format":{"type":"json_schema","name":"n","schema":@}}}`,
			`{"prompt":{"id":"pmpt_1","variables":#}}`,
			`{"metadata":@,"client_metadata":@}`,
		},
		ids: []string{
			`{"previous_response_id":@}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_file","file_id":@}]}]}`,
			`{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":@}]}]}`,
			`{"input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":@}}]}`,
			`{"input":[{"type":"code_interpreter_call","container_id":@}]}`,
			`{"input":[{"type":"shell_call","environment":{"type":"container_reference","container_id":@}}]}`,
			`{"input":[{"type":"message","role":"assistant","content":[{"type":"output_text","annotations":[{"type":"file_citation","file_id":@}]}]}]}`,
			`{"input":[{"type":"item_reference","id":@}]}`,
			`{"input":[{"id":@}]}`,
			`{"input":[{"type":"reasoning","id":@,"summary":[]}]}`,
			`{"tools":[{"type":"file_search","vector_store_ids":[@]}]}`,
			`{"tools":[{"type":"code_interpreter","container":@}]}`,
			`{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":[@]}}]}`,
			`{"tools":[{"type":"shell","environment":{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":@}]}}]}`,
			`{"tools":[{"type":"image_generation","input_image_mask":{"file_id":@}}]}`,
			`{"prompt":{"id":"pmpt_1","variables":{"container":{"type":"input_file","file_id":@}}}}`,
		},
	},
	"/messages": {
		opaque: []string{
			`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":@}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"input":{"a":[{"b":@}]},"type":"mcp_tool_use","id":"t","name":"n","server_name":"s"}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"t","name":"web_search","input":@}]}]}`,
			`{"tools":[{"name":"t","input_schema":{"type":"object","properties":@,"examples":[@]},"input_examples":[@]}]}`,
			`{"tools":[{"type":"mcp_toolset","mcp_server_name":"s","configs":#}]}`,
			`{"output_config":{"format":{"type":"json_schema","schema":@}}}`,
			`{"output_format":{"type":"json_schema","schema":@}}`,
			`{"metadata":@}`,
		},
		ids: []string{
			`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":@}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":@}}]}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"container_upload","file_id":@}]}]}`,
			`{"system":[{"type":"document","source":{"type":"file","file_id":@}}]}`,
			`{"container":@}`,
			`{"container":{"id":@}}`,
			`{"container":{"skills":[{"type":"custom","skill_id":@}]}}`,
		},
	},
	"/messages/count_tokens": {
		opaque: []string{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":@}]}]}`},
		ids:    []string{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":@}}]}]}`},
	},
	"/uploads/{upload}/complete": {ids: []string{`{"part_ids":["p",@]}`}},
	"/batches":                   {opaque: []string{`{"metadata":@}`}, ids: []string{`{"input_file_id":@}`}},
	"/fine_tuning/jobs": {
		opaque: []string{
			`{"metadata":@}`,
			`{"method":{"type":"reinforcement","reinforcement":{"response_format":@}}}`,
			`{"method":{"type":"reinforcement","reinforcement":{"grader":{"type":"multi","graders":#}}}}`,
		},
		ids: []string{`{"training_file":@}`, `{"validation_file":@}`},
	},
	"/vector_stores":                       {opaque: []string{`{"metadata":@}`}, ids: []string{`{"file_ids":[@]}`}},
	"/vector_stores/{vector_store}":        {opaque: []string{`{"metadata":@}`}},
	"/vector_stores/{vector_store}/search": {opaque: []string{`{"query":"x","filters":{"type":"eq","key":"file_id","value":"container"}}`}},
	"/vector_stores/{vector_store}/files":  {opaque: []string{`{"attributes":@}`}, ids: []string{`{"file_id":@}`}},
	"/vector_stores/{vector_store}/file_batches": {
		opaque: []string{`{"files":[{"attributes":@}]}`},
		ids:    []string{`{"file_ids":[@]}`, `{"files":[{"file_id":@}]}`},
	},
	"/realtime": {
		opaque: []string{
			`{"type":"session.update","session":{"tools":[{"type":"function","name":"f","parameters":@},{"type":"mcp","headers":@}],"prompt":{"id":"p","variables":#}}}`,
			`{"type":"response.create","response":{"metadata":@,"tools":[{"type":"function","parameters":@}]}}`,
		},
		ids: []string{`{"type":"conversation.item.create","item":{"content":[{"type":"input_image","file_id":@}]}}`},
	},
}

// Data of the caller's own is not searched, however it looks, and every place where a provider takes an id is, also in a
// line of a batch.
func TestReferences_OfAPIs(t *testing.T) {
	for route, api := range apis {
		for _, body := range api.opaque {
			filled := strings.NewReplacer("@", asData, "#", asNames).Replace(body)
			for _, doc := range []string{filled, `{"custom_id":"1","method":"POST","url":"/v1` + route + `","body":` + filled + `}`} {
				found, err := Walk([]byte(doc), func(key, _ string, _ int) {
					if strings.EqualFold(key, "model") {
						t.Errorf("%s %s: a model is seen", route, body)
					}
				})
				if err != nil || len(found) > 0 {
					t.Errorf("%s %s: %v %v, want no reference", route, body, found, err)
				}
			}
		}
		for _, body := range api.ids {
			found, err := references([]byte(strings.ReplaceAll(body, "@", `"theirs"`)))
			if err != nil || len(found) == 0 || found[len(found)-1].ID != "theirs" {
				t.Errorf("%s %s: %v %v, want a reference", route, body, found, err)
			}
		}
	}
}

// Where servers could read a key as another one, or look into what only resembles data, it is searched.
func TestReferences_NearData(t *testing.T) {
	for _, body := range []string{
		`{"input":{"file_id":"f"}}`,
		`{"messages":[{"input":{"file_id":"f"}}]}`,
		`{"messages":[{"content":[{"Input":{"file_id":"f"}}]}]}`,
		`{"messages":[{"Content":[{"input":{"file_id":"f"}}]}]}`,
		`{"tools":[{"Parameters":{"file_id":"f"}}]}`,
		`{"extra_body":{"file_id":"f"}}`,
		`{"session":{"audio":{"input":{"x":{"file_id":"f"}}}}}`,
		`{"input":[{"type":"message","content":[{"annotations":[[{"file_id":"f"}]]}]}]}`,
		`{"variables":[{"file_id":"f"}]}`,
		`{"variables":{"variables":{"file_id":"f"}}}`,
		`{"arguments":"{}","file_id":"f"}`,
	} {
		if found, err := references([]byte(body)); err != nil || len(found) != 1 || found[0].ID != "f" {
			t.Errorf("%s: %v %v, want the reference to f", body, found, err)
		}
	}
}
