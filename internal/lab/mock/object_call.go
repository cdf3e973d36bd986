package mock

import (
	"io"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// objectCall is one request for the account's objects.
type objectCall struct {
	s     *Server
	r     *http.Request
	ids   []string
	body  gjson.Result
	form  map[string][]byte
	bytes []byte // content to download, instead of a view
}

// read reads the body, if there is one.
func (v *objectCall) read() *apiError {
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

func (v *objectCall) readForm() *apiError {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return badRequest("", "We could not parse your form.")
	}
	v.form = map[string][]byte{}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil // the end, or an incomplete form
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

// listPath is the path of the list that the request names.
func (v *objectCall) listPath() string {
	return strings.TrimPrefix(strings.TrimPrefix(v.r.URL.Path, "/v1"), "/")
}

func readLimited(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if len(text) > maxBody {
		return nil, errBodyTooLarge
	}
	return text, err
}

// find returns the object that the path names: the last id, in its list.
func (v *objectCall) find() (*object, *apiError) {
	if len(v.ids) == 0 {
		return nil, noObject("")
	}
	id := v.ids[len(v.ids)-1]
	for place, row := range v.s.account.rows {
		if !strings.HasPrefix(v.listPath()+"/", place+"/"+id+"/") {
			continue
		}
		for _, t := range row {
			if t.id == id {
				return t, nil
			}
		}
	}
	return nil, noObject(id)
}
