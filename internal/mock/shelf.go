package mock

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

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
