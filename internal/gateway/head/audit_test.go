package head

import (
	"strings"
	"testing"
)

// A list of ids is not kept at many times the size of its body: beyond a bound, nothing of it is.
func TestRead_ManyReferences(t *testing.T) {
	for name, body := range map[string]string{
		"a list of ids":         `{"model":"m","file_ids":["` + strings.Repeat(`","`, 5*mostReferences) + `"]}`,
		"another route's":       `{"model":"m","training_file":["` + strings.Repeat(`","`, 5*mostReferences) + `"]}`,
		"ids of one object":     `{"model":"m","x":{"id":"` + strings.Repeat(`","id":"`, 5*mostReferences) + `"}}`,
		"ids of nested objects": `{"model":"m","input":[` + strings.Repeat(`{"type":"item_reference","id":"a"},`, 2*mostReferences) + `{}]}`,
	} {
		r := new(Reader)
		h := &Head{}
		err := r.Read(h, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		refs, problem := h.References()
		if len(refs) > 0 || problem == nil || cap(r.refs.names) > 4*mostReferences {
			t.Errorf("%s: %d references are kept, %v", name, len(refs), problem)
		}
	}
}

// The prompt of a line in a batch file is weighed as that of a call.
func TestReadLine_Size(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("hello world ", 5000) + `"}]}`
	l, err := ReadLine([]byte(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":`+body+`}`), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	h, err := Read([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Head.Size(0), h.Size(0); got[0] < want[0]*9/10 || got[0] > want[0]*11/10 || want[0] == 0 {
		t.Errorf("a line weighs %v, its body alone %v", got, want)
	}
}
