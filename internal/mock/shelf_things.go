package mock

import (
	"slices"
	"strings"
	"time"
)

// What can be done with any object on the shelf, whatever it is.

// thing is one object on the shelf.
type thing struct {
	id      string
	view    map[string]any
	content []byte
	done    map[string]any // of what goes on in the background: how it will be shown from the second look on
	looks   int
	took    int64 // tokens of a response, with all that it continues
}

// put puts a new object on the shelf.
func (s *shelf) put(place, id, object string, view map[string]any) *thing {
	view["id"] = id
	view["object"] = object
	view["created_at"] = time.Now().Unix()
	t := &thing{id: id, view: view}
	if s.things == nil {
		s.things = map[string]*thing{}
		s.rows = map[string][]*thing{}
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

func (v *visit) pause() (map[string]any, *apiError) { return v.status("paused") }

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
