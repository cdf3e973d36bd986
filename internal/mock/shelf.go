package mock

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// shelf is what the server keeps for its one account: files, batches and the like. As at
// a provider, whoever has the account's key sees all of it.
type shelf struct {
	mu     sync.Mutex
	seq    uint64              // guarded by mu, as all below
	things map[string]*thing   // by id
	rows   map[string][]*thing // by place, such as "files" or "vector_stores/vs_1/files"; oldest first
}

// thing is one object on the shelf.
type thing struct {
	id      string
	view    map[string]any
	content []byte
	done    map[string]any // of what goes on in the background: how it will be shown from the second look on
	looks   int
}

// fixed are the elements of paths that are no ids.
var fixed = map[string]bool{
	"responses": true, "input_items": true, "files": true, "content": true, "uploads": true, "parts": true,
	"complete": true, "cancel": true, "batches": true, "fine_tuning": true, "jobs": true, "pause": true, "resume": true,
	"events": true, "checkpoints": true, "vector_stores": true, "search": true, "file_batches": true,
}

// visit is one request to the shelf.
type visit struct {
	s     *Server
	r     *http.Request
	ids   []string
	body  gjson.Result
	form  map[string][]byte
	bytes []byte // instead of a view: content to download
}

// visits are the routes to the shelf, with a * for each id.
var visits = map[string]func(*visit) (map[string]any, *apiError){
	"GET responses/*":             (*visit).showResponse,
	"DELETE responses/*":          (*visit).remove,
	"POST responses/*/cancel":     (*visit).cancel,
	"GET responses/*/input_items": (*visit).list,

	"POST files":            (*visit).createFile,
	"GET files":             (*visit).list,
	"GET files/*":           (*visit).show,
	"DELETE files/*":        (*visit).remove,
	"GET files/*/content":   (*visit).download,
	"POST uploads":          (*visit).createUpload,
	"POST uploads/*/parts":  (*visit).createPart,
	"POST uploads/*/cancel": (*visit).cancel,

	"POST uploads/*/complete": (*visit).completeUpload,

	"POST batches":          (*visit).createBatch,
	"GET batches":           (*visit).list,
	"GET batches/*":         (*visit).showBatch,
	"POST batches/*/cancel": (*visit).cancel,

	"POST fine_tuning/jobs":              (*visit).createJob,
	"GET fine_tuning/jobs":               (*visit).list,
	"GET fine_tuning/jobs/*":             (*visit).showJob,
	"POST fine_tuning/jobs/*/cancel":     (*visit).cancel,
	"POST fine_tuning/jobs/*/pause":      (*visit).pause,
	"POST fine_tuning/jobs/*/resume":     (*visit).resume,
	"GET fine_tuning/jobs/*/events":      (*visit).list,
	"GET fine_tuning/jobs/*/checkpoints": (*visit).list,

	"POST vector_stores":                         (*visit).createStore,
	"GET vector_stores":                          (*visit).list,
	"GET vector_stores/*":                        (*visit).show,
	"POST vector_stores/*":                       (*visit).modify,
	"DELETE vector_stores/*":                     (*visit).remove,
	"POST vector_stores/*/search":                (*visit).search,
	"POST vector_stores/*/files":                 (*visit).attach,
	"GET vector_stores/*/files":                  (*visit).list,
	"GET vector_stores/*/files/*":                (*visit).show,
	"POST vector_stores/*/files/*":               (*visit).modify,
	"DELETE vector_stores/*/files/*":             (*visit).remove,
	"GET vector_stores/*/files/*/content":        (*visit).attached,
	"POST vector_stores/*/file_batches":          (*visit).createFileBatch,
	"GET vector_stores/*/file_batches/*":         (*visit).show,
	"POST vector_stores/*/file_batches/*/cancel": (*visit).cancel,
	"GET vector_stores/*/file_batches/*/files":   (*visit).list,
}

// serveShelf answers a request to the shelf. It reports whether it was one.
func (s *Server) serveShelf(w http.ResponseWriter, r *http.Request, path string) bool {
	elements := strings.Split(strings.TrimPrefix(path, "/"), "/")
	v := visit{s: s, r: r}
	for i, e := range elements {
		if !fixed[e] {
			v.ids = append(v.ids, e)
			elements[i] = "*"
		}
	}
	do := visits[r.Method+" "+strings.Join(elements, "/")]
	if do == nil {
		return false
	}
	if e := v.read(); e != nil {
		s.writePlain(w, e.status, e.append(nil))
		return true
	}
	s.shelf.mu.Lock()
	view, e := do(&v)
	var text []byte
	if e == nil && v.bytes == nil {
		text, _ = json.Marshal(view) // strings, numbers, and maps and lists of these
	}
	s.shelf.mu.Unlock()
	switch {
	case e != nil:
		s.writePlain(w, e.status, e.append(nil))
	case v.bytes != nil:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(v.bytes)
	default:
		s.writePlain(w, 200, text)
	}
	return true
}

// read reads the body, of which there may be none.
func (v *visit) read() *apiError {
	if v.r.Method != http.MethodPost || v.r.ContentLength == 0 {
		return nil
	}
	if strings.HasPrefix(v.r.Header.Get("Content-Type"), "multipart/form-data") {
		return v.readForm()
	}
	text, err := readLimited(v.r.Body)
	if err != nil || !gjson.ValidBytes(text) {
		return badRequest("", "We could not parse the JSON body of your request.")
	}
	v.body = gjson.ParseBytes(text)
	return nil
}

func (v *visit) readForm() *apiError {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return badRequest("", "We could not parse your form.")
	}
	v.form = map[string][]byte{}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil // the end, or a form that lacks something
		}
		text, err := readLimited(part)
		if err != nil {
			return badRequest("", "We could not parse your form.")
		}
		v.form[part.FormName()] = text
		if part.FileName() != "" {
			v.form["filename"] = []byte(part.FileName())
		}
	}
}

// place is where the list stands that the path names.
func (v *visit) place() string {
	return strings.TrimPrefix(strings.TrimPrefix(v.r.URL.Path, "/v1"), "/")
}

// put puts a new object on the shelf.
func (s *shelf) put(place, id, object string, view map[string]any) *thing {
	view["id"], view["object"], view["created_at"] = id, object, time.Now().Unix()
	t := &thing{id: id, view: view}
	if s.things == nil {
		s.things, s.rows = map[string]*thing{}, map[string][]*thing{}
	}
	if _, attached := s.things[id]; !attached || !strings.Contains(place, "/") {
		s.things[id] = t
	}
	s.rows[place] = append(s.rows[place], t)
	return t
}

func (s *Server) shelfID(prefix string) string {
	s.shelf.seq++
	return string(s.appendID(nil, prefix, s.shelf.seq))
}

// find returns the object that the path names: the last id, in its list.
func (v *visit) find() (*thing, *apiError) {
	if len(v.ids) == 0 {
		return nil, noThing("")
	}
	id := v.ids[len(v.ids)-1]
	for place, row := range v.s.shelf.rows {
		if !strings.HasPrefix(v.place()+"/", place+"/"+id+"/") {
			continue
		}
		for _, t := range row {
			if t.id == id {
				return t, nil
			}
		}
	}
	return nil, noThing(id)
}

func noThing(id string) *apiError {
	e := badRequest("id", "No such object: "+id)
	e.status = 404
	return e
}

func (v *visit) show() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	return t.view, nil
}

func (v *visit) remove() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	for place, row := range v.s.shelf.rows {
		if strings.HasPrefix(v.place(), place+"/") {
			v.s.shelf.rows[place] = slices.DeleteFunc(row, func(o *thing) bool { return o == t })
		}
	}
	if v.s.shelf.things[t.id] == t {
		delete(v.s.shelf.things, t.id)
	}
	return map[string]any{"id": t.id, "object": t.view["object"].(string) + ".deleted", "deleted": true}, nil
}

func (v *visit) status(to string) (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	t.view["status"] = to
	return t.view, nil
}

func (v *visit) cancel() (map[string]any, *apiError) { return v.status("cancelled") }
func (v *visit) pause() (map[string]any, *apiError)  { return v.status("paused") }
func (v *visit) resume() (map[string]any, *apiError) { return v.status("running") }

func (v *visit) modify() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	for _, key := range []string{"name", "metadata", "attributes"} {
		if x := v.body.Get(key); x.Exists() {
			t.view[key] = x.Value()
		}
	}
	return t.view, nil
}

// list is a page of a list, as the query asks for it: newest first, and "before" is the
// page that ends there.
func (v *visit) list() (map[string]any, *apiError) {
	query := v.r.URL.Query()
	row := slices.Clone(v.s.shelf.rows[v.place()])
	if purpose := query.Get("purpose"); purpose != "" {
		row = slices.DeleteFunc(row, func(t *thing) bool { return t.view["purpose"] != purpose })
	}
	if query.Get("order") != "asc" {
		slices.Reverse(row)
	}
	limit, most := 20, 100
	if v.place() == "files" {
		limit, most = 10_000, 10_000
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, badRequest("limit", "Invalid 'limit': "+text+".")
		}
		limit = n
	}
	at := func(id string) int { return slices.IndexFunc(row, func(t *thing) bool { return t.id == id }) }
	more := false
	if id := query.Get("before"); id != "" {
		i := at(id)
		if i < 0 {
			return nil, noThing(id)
		}
		row, more = row[max(0, i-limit):i], i > limit
	} else {
		if id := query.Get("after"); id != "" {
			i := at(id)
			if i < 0 {
				return nil, noThing(id)
			}
			row = row[i+1:]
		}
		more = len(row) > limit
		row = row[:min(limit, len(row))]
	}
	return pageOf(row, more), nil
}

func pageOf(row []*thing, more bool) map[string]any {
	data := []any{}
	page := map[string]any{"object": "list", "has_more": more, "first_id": nil, "last_id": nil}
	for _, t := range row {
		data = append(data, t.view)
	}
	if len(row) > 0 {
		page["first_id"], page["last_id"] = row[0].id, row[len(row)-1].id
	}
	page["data"] = data
	return page
}
