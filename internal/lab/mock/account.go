package mock

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// object is one object of the account.
type object struct {
	id      string
	view    map[string]any
	content []byte
	done    map[string]any // of work in the background: the view from the second request on
	looks   int
	took    int64 // tokens of a response, with those it continues
}

// put adds an object to a list.
func (s *account) put(place, id, kind string, view map[string]any) *object {
	view["id"] = id
	view["object"] = kind
	view["created_at"] = time.Now().Unix()
	t := &object{id: id, view: view}
	if s.objects == nil {
		s.objects = map[string]*object{}
		s.rows = map[string][]*object{}
	}
	if _, attached := s.objects[id]; !attached || !strings.Contains(place, "/") {
		s.objects[id] = t
	}
	s.rows[place] = append(s.rows[place], t)
	return t
}

func (s *Server) objectID(prefix string) string {
	s.account.seq++
	return string(s.appendID(nil, prefix, s.account.seq))
}

func noObject(id string) *apiError {
	e := badRequest("id", "No such object: "+id)
	e.status = 404
	return e
}

func (v *objectCall) show() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	return t.view, nil
}

func (v *objectCall) remove() (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	for place, row := range v.s.account.rows {
		if strings.HasPrefix(v.listPath(), place+"/") {
			v.s.account.rows[place] = slices.DeleteFunc(row, func(o *object) bool { return o == t })
		}
	}
	if v.s.account.objects[t.id] == t {
		delete(v.s.account.objects, t.id)
	}
	return map[string]any{"id": t.id, "object": t.view["object"].(string) + ".deleted", "deleted": true}, nil
}

func (v *objectCall) status(to string) (map[string]any, *apiError) {
	t, e := v.find()
	if e != nil {
		return nil, e
	}
	t.view["status"] = to
	return t.view, nil
}

func (v *objectCall) cancel() (map[string]any, *apiError) { return v.status("cancelled") }

func (v *objectCall) pause() (map[string]any, *apiError) { return v.status("paused") }

func (v *objectCall) resume() (map[string]any, *apiError) { return v.status("running") }

func (v *objectCall) modify() (map[string]any, *apiError) {
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

// account keeps the objects of the server's one account: files, batches and the like. As at
// a provider, everybody with the account's key sees all of them.
type account struct {
	mu      sync.Mutex
	seq     uint64               // guarded by mu, as all below
	objects map[string]*object   // by id
	rows    map[string][]*object // by place, such as "files" or "vector_stores/vs_1/files"; oldest first
}
