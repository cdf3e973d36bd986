package mock

import (
	"encoding/json"
	"net/http"
	"strings"
)

// pathWords are the elements of paths that are no ids.
var pathWords = map[string]bool{
	"responses": true, "input_items": true, "files": true, "content": true, "uploads": true, "parts": true,
	"complete": true, "cancel": true, "batches": true, "fine_tuning": true, "jobs": true, "pause": true, "resume": true,
	"events": true, "checkpoints": true, "vector_stores": true, "search": true, "file_batches": true,
}

// objectRoutes are the routes of the account's objects, with a * for each id.
var objectRoutes = map[string]func(*objectCall) (map[string]any, *apiError){
	"GET responses/*":             (*objectCall).showResponse,
	"DELETE responses/*":          (*objectCall).remove,
	"POST responses/*/cancel":     (*objectCall).cancel,
	"GET responses/*/input_items": (*objectCall).list,

	"POST files":            (*objectCall).createFile,
	"GET files":             (*objectCall).list,
	"GET files/*":           (*objectCall).show,
	"DELETE files/*":        (*objectCall).remove,
	"GET files/*/content":   (*objectCall).download,
	"POST uploads":          (*objectCall).createUpload,
	"POST uploads/*/parts":  (*objectCall).createPart,
	"POST uploads/*/cancel": (*objectCall).cancel,

	"POST uploads/*/complete": (*objectCall).completeUpload,

	"POST batches":          (*objectCall).createBatch,
	"GET batches":           (*objectCall).list,
	"GET batches/*":         (*objectCall).showBatch,
	"POST batches/*/cancel": (*objectCall).cancel,

	"POST fine_tuning/jobs":              (*objectCall).createJob,
	"GET fine_tuning/jobs":               (*objectCall).list,
	"GET fine_tuning/jobs/*":             (*objectCall).showJob,
	"POST fine_tuning/jobs/*/cancel":     (*objectCall).cancel,
	"POST fine_tuning/jobs/*/pause":      (*objectCall).pause,
	"POST fine_tuning/jobs/*/resume":     (*objectCall).resume,
	"GET fine_tuning/jobs/*/events":      (*objectCall).list,
	"GET fine_tuning/jobs/*/checkpoints": (*objectCall).list,

	"POST vector_stores":                         (*objectCall).createStore,
	"GET vector_stores":                          (*objectCall).list,
	"GET vector_stores/*":                        (*objectCall).show,
	"POST vector_stores/*":                       (*objectCall).modify,
	"DELETE vector_stores/*":                     (*objectCall).remove,
	"POST vector_stores/*/search":                (*objectCall).search,
	"POST vector_stores/*/files":                 (*objectCall).attach,
	"GET vector_stores/*/files":                  (*objectCall).list,
	"GET vector_stores/*/files/*":                (*objectCall).show,
	"POST vector_stores/*/files/*":               (*objectCall).modify,
	"DELETE vector_stores/*/files/*":             (*objectCall).remove,
	"GET vector_stores/*/files/*/content":        (*objectCall).attached,
	"POST vector_stores/*/file_batches":          (*objectCall).createFileBatch,
	"GET vector_stores/*/file_batches/*":         (*objectCall).show,
	"POST vector_stores/*/file_batches/*/cancel": (*objectCall).cancel,
	"GET vector_stores/*/file_batches/*/files":   (*objectCall).list,
}

// serveObjects answers a request for the account's objects. It reports whether it was one.
func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request, path string) bool {
	elements := strings.Split(strings.TrimPrefix(path, "/"), "/")
	v := objectCall{s: s, r: r}
	for i, e := range elements {
		if !pathWords[e] {
			v.ids = append(v.ids, e)
			elements[i] = "*"
		}
	}
	do := objectRoutes[r.Method+" "+strings.Join(elements, "/")]
	if do == nil {
		return false
	}
	if e := v.read(); e != nil {
		s.writePlain(w, e.status, e.append(nil))
		return true
	}
	s.account.mu.Lock()
	view, e := do(&v)
	var text []byte
	if e == nil && v.bytes == nil {
		text, _ = json.Marshal(view) // strings, numbers, and maps and lists of these
	}
	s.account.mu.Unlock()
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
