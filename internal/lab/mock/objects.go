package mock

import (
	"bytes"
	"cmp"
	"time"

	"github.com/tidwall/gjson"
)

// known reports the first of the ids under a key that no object has.
func (v *objectCall) known(key string, ids gjson.Result) *apiError {
	list := []gjson.Result{ids}
	if ids.IsArray() {
		list = ids.Array()
	}
	for _, id := range list {
		if id.Type == gjson.Null {
			continue
		}
		if v.s.account.objects[id.Str] == nil {
			return badRequest(key, "Invalid "+key+": no such object: "+id.Str)
		}
	}
	return nil
}

func (v *objectCall) putFile(name, purpose string, content []byte) *object {
	t := v.s.account.put("files", v.s.objectID("file-"), "file", map[string]any{
		"bytes": len(content), "filename": name, "purpose": purpose, "status": "processed",
	})
	t.content = content
	return t
}

func (v *objectCall) createFile() (map[string]any, *apiError) {
	content, there := v.form["file"]
	if !there || len(v.form["purpose"]) == 0 {
		return nil, badRequest("file", "'file' and 'purpose' are required properties")
	}
	return v.putFile(string(v.form["filename"]), string(v.form["purpose"]), content).view, nil
}

func (v *objectCall) download() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	v.bytes = append([]byte{}, t.content...)
	return nil, nil
}

func (v *objectCall) createUpload() (map[string]any, *apiError) {
	return v.s.account.put("uploads", v.s.objectID("upload_"), "upload", map[string]any{
		"bytes": v.body.Get("bytes").Int(), "filename": v.body.Get("filename").Str, "purpose": v.body.Get("purpose").Str,
		"status": "pending", "expires_at": time.Now().Add(time.Hour).Unix(), "file": nil,
	}).view, nil
}

func (v *objectCall) createPart() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	part := v.s.account.put(v.listPath(), v.s.objectID("part_"), "upload.part", map[string]any{"upload_id": t.id})
	part.content = v.form["data"]
	return part.view, nil
}

func (v *objectCall) completeUpload() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	if e := v.known("part_ids", v.body.Get("part_ids")); e != nil {
		return nil, e
	}
	var content []byte
	for _, id := range v.body.Get("part_ids").Array() {
		content = append(content, v.s.account.objects[id.Str].content...)
	}
	name, _ := t.view["filename"].(string)
	purpose, _ := t.view["purpose"].(string)
	t.view["status"] = "completed"
	t.view["file"] = v.putFile(name, purpose, content).view
	return t.view, nil
}

func (v *objectCall) createBatch() (map[string]any, *apiError) {
	if e := v.known("input_file_id", v.body.Get("input_file_id")); e != nil {
		return nil, e
	}
	return v.s.account.put("batches", v.s.objectID("batch_"), "batch", map[string]any{
		"endpoint": v.body.Get("endpoint").Str, "input_file_id": v.body.Get("input_file_id").Str,
		"completion_window": "24h", "status": "validating", "output_file_id": nil, "error_file_id": nil,
	}).view, nil
}

// showBatch shows a batch as done, with an answer to each line of its file, so that tests need not
// wait.
func (v *objectCall) showBatch() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil || t.view["status"] != "validating" {
		return v.show()
	}
	id, _ := t.view["input_file_id"].(string)
	var out []byte
	var prompt, produced int64
	if in := v.s.account.objects[id]; in != nil {
		for line := range bytes.Lines(in.content) {
			url := gjson.GetBytes(line, "url").Str
			body := gjson.GetBytes(line, "body")
			prompt += PromptTokens([]byte(body.Raw), url)
			answers := max(1, body.Get("n").Int())
			produced += answers * cmp.Or(body.Get("max_tokens").Int(), int64(v.s.cfg.OutputTokens))
			t.view["model"] = body.Get("model").Str
			out = append(out, `{"custom_id":`...)
			out = gjson.AppendJSONString(out, gjson.GetBytes(line, "custom_id").Str)
			out = append(out, `,"response":{"status_code":200,"body":{}}}`+"\n"...)
		}
	}
	t.view["status"] = "completed"
	t.view["usage"] = map[string]any{
		"input_tokens": prompt, "input_tokens_details": map[string]any{"cached_tokens": prompt / 2},
		"output_tokens": produced, "output_tokens_details": map[string]any{"reasoning_tokens": produced / 2}, "total_tokens": prompt + produced,
	}
	t.view["output_file_id"] = v.putFile(t.id+"_output.jsonl", "batch_output", out).id
	t.view["error_file_id"] = v.putFile(t.id+"_error.jsonl", "batch_output", nil).id
	return t.view, nil
}

func (v *objectCall) createJob() (map[string]any, *apiError) {
	for _, key := range []string{"training_file", "validation_file"} {
		if e := v.known(key, v.body.Get(key)); e != nil {
			return nil, e
		}
	}
	t := v.s.account.put("fine_tuning/jobs", v.s.objectID("ftjob-"), "fine_tuning.job", map[string]any{
		"model": v.body.Get("model").Str, "training_file": v.body.Get("training_file").Str, "validation_file": nil,
		"status": "queued", "fine_tuned_model": nil, "result_files": []any{}, "organization_id": "org-mock",
	})
	v.s.account.put("fine_tuning/jobs/"+t.id+"/events", v.s.objectID("ftevent-"), "fine_tuning.job.event", map[string]any{"level": "info", "message": "Created fine-tuning job"})
	v.s.account.put("fine_tuning/jobs/"+t.id+"/checkpoints", v.s.objectID("ftckpt_"), "fine_tuning.job.checkpoint", map[string]any{"fine_tuning_job_id": t.id, "step_number": 1})
	return t.view, nil
}

// showJob shows a job as done.
func (v *objectCall) showJob() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil || t.view["status"] != "queued" {
		return v.show()
	}
	model, _ := t.view["model"].(string)
	t.view["status"] = "succeeded"
	t.view["fine_tuned_model"] = "ft:" + model + ":mock::" + t.id
	t.view["result_files"] = []any{v.putFile("step_metrics.csv", "fine-tune-results", []byte("step,loss\n1,0.5\n")).id}
	return t.view, nil
}

func (v *objectCall) createStore() (map[string]any, *apiError) {
	ids := v.body.Get("file_ids")
	if e := v.known("file_ids", ids); e != nil {
		return nil, e
	}
	t := v.s.account.put("vector_stores", v.s.objectID("vs_"), "vector_store", map[string]any{
		"name": v.body.Get("name").Str, "status": "completed", "metadata": map[string]any{},
	})
	for _, id := range ids.Array() {
		v.attachTo(t.id, id.Str)
	}
	return t.view, nil
}

func (v *objectCall) attachTo(store, file string) *object {
	return v.s.account.put("vector_stores/"+store+"/files", file, "vector_store.file", map[string]any{
		"vector_store_id": store, "status": "completed",
	})
}

func (v *objectCall) attach() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	id := v.body.Get("file_id")
	if e := v.known("file_id", id); e != nil {
		return nil, e
	}
	return v.attachTo(t.id, id.Str).view, nil
}

func (v *objectCall) attached() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	text := ""
	if file := v.s.account.objects[t.id]; file != nil {
		text = string(file.content)
	}
	return map[string]any{"object": "vector_store.file_content.page", "data": []any{map[string]any{"type": "text", "text": text}}, "has_more": false}, nil
}

func (v *objectCall) createFileBatch() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	ids := v.body.Get("file_ids")
	if e := v.known("file_ids", ids); e != nil {
		return nil, e
	}
	b := v.s.account.put(v.listPath(), v.s.objectID("vsfb_"), "vector_store.files_batch", map[string]any{"vector_store_id": t.id, "status": "completed"})
	for _, id := range ids.Array() {
		file := v.attachTo(t.id, id.Str)
		v.s.account.put(v.listPath()+"/"+b.id+"/files", id.Str, "vector_store.file", file.view)
	}
	return b.view, nil
}

func (v *objectCall) search() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	data := []any{}
	for _, file := range v.s.account.rows["vector_stores/"+t.id+"/files"] {
		text := ""
		if f := v.s.account.objects[file.id]; f != nil {
			text = string(f.content)
		}
		data = append(data, map[string]any{"file_id": file.id, "score": 1, "attributes": map[string]any{}, "content": []any{map[string]any{"type": "text", "text": text}}})
	}
	return map[string]any{"object": "vector_store.search_results.page", "search_query": []any{v.body.Get("query").Str}, "data": data, "has_more": false, "next_page": nil}, nil
}

// inBackground reports whether a response runs in the background.
func (c *call) inBackground() bool {
	return c.route == routeResponses && c.background.Type == gjson.True
}

// showResponse shows a response in the background as done at the second request for it.
func (v *objectCall) showResponse() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	t.looks++
	if t.done != nil && t.looks > 1 {
		t.view = t.done
		t.done = nil
	}
	return t.view, nil
}

// maxResponses bounds the responses that are kept, because load creates many and asks for none.
const maxResponses = 10_000

// keepResponse keeps an answer unless the call has store: false.
func (j *job) keepResponse() {
	if j.call.route != routeResponses || j.call.store.Type == gjson.False {
		return
	}
	j.s.account.mu.Lock()
	defer j.s.account.mu.Unlock()
	view, _ := gjson.ParseBytes(j.shapes.responses.plain(nil)).Value().(map[string]any)
	id, _ := view["id"].(string)
	t := j.s.account.put("responses", id, "response", view)
	t.took = j.ticket.prompt + j.ticket.produced
	if j.call.inBackground() {
		t.done = view
		t.view, _ = gjson.ParseBytes(j.shapes.responses.appendResponse(nil, "in_progress")).Value().(map[string]any)
	}
	item := j.s.objectID("msg_in_")
	j.s.account.put("responses/"+id+"/input_items", item, "message", map[string]any{
		"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "the input"}},
	})
	if row := j.s.account.rows["responses"]; len(row) > maxResponses {
		place := "responses/" + row[0].id + "/input_items"
		for _, t := range j.s.account.rows[place] {
			delete(j.s.account.objects, t.id)
		}
		delete(j.s.account.rows, place)
		delete(j.s.account.objects, row[0].id)
		j.s.account.rows["responses"] = row[1:]
	}
}
