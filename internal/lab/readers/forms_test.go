package readers

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand"
	"mime"
	"mime/multipart"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fields is a form as a reader has it: texts in base64, and files as their names and contents.
type fields struct {
	Fields map[string][]string
	Files  map[string][][2]string
}

// formPaths are the routes to which forms are sent.
var formPaths = []string{"/audio/transcriptions", "/images/edits", "/files"}

const formKind = "multipart/form-data; boundary=b"

func field(name, text string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
}

// formSeeds are forms that were tried by hand, of which some reader had another model.
var formSeeds = []string{
	field("model", "ok") + "--b--\r\n",
	field("x", "foo\n--b\nContent-Disposition: form-data; name=\"model\"\n\nbad") + field("model", "ok") + "--b--\r\n",
	"x\r--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbad\r" + field("model", "ok") + "--b--\r\n",
	field("model", "ok") + "--b--\r\n" + field("model", "bad") + "--b--",
	field("model", "ok") + "--b\r\nContent-Disposition: form-data; name=\"x\"\n\n--b--\r\n" + field("model", "bad") + "--b--\r\n",
	strings.Replace(field("x", "bad"), `name="x"`, `x-name="model"; name="x"`, 1) + field("model", "ok") + "--b--\r\n",
	strings.Replace(field("model", "wild-=67=70t"), "\r\n\r\n", "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", 1) + "--b--\r\n",
	strings.ReplaceAll(field("model", "ok"), "--b\r\n", "--b \r\n") + "--b--\r\n",
	strings.Replace(field("model", "b+AGEAZA-"), "\r\n\r\n", "\r\nContent-Type: text/plain; charset=utf-7\r\n\r\n", 1) + "--b--\r\n",
	strings.Replace(field("model", "bad"), `"model"`, `"model"; filename=""`, 1) + field("model", "ok") + "--b--\r\n",
	strings.Replace(field("model", "ok"), "\r\n\r\n", "\r\nContent-Type: application/octet-stream\r\n\r\n", 1) + "--b--\r\n",
	field("model", "ok") + field("model[]", "bad") + field("Model", "bad") + "--b--",
	field("model", "ok") + strings.Replace(field("file", "\r\n--\r\n"), `"file"`, `"file"; filename="; name=model"`, 1) + "--b--",
	field("purpose", "batch") + "--b--\r\n" + strings.Replace(field("file", `{"body":{"model":"bad"}}`), `"file"`, `"file"; filename="a"`, 1) + "--b--",
}

// TestForms compares what readers make of forms as they are forwarded.
func TestForms(t *testing.T) {
	gw := newFront(t)
	var processes []*process[fields]
	if *installed {
		processes = []*process[fields]{
			start[fields](t, "old/.venv/bin/python", "forms.py", "old"),
			start[fields](t, "new/.venv/bin/python", "forms.py", "new"),
			start[fields](t, node(), "forms.mjs"),
		}
	}
	next := toTry(t, formSeeds, "forms", randomForm)
	n := &tally{}
	for more := true; more; {
		var trials []trial
		for len(trials) < 64 && more {
			var body []byte
			body, more = next()
			if !more {
				break
			}
			for _, path := range formPaths {
				n.sent++
				if sent := gw.send(path, formKind, body); sent != nil {
					trials = append(trials, trial{path, body, slices.Concat([]byte(sent.kind+"\n"), sent.body)})
				}
			}
		}
		n.accepted += len(trials)
		for i, found := range readAll(t, processes, texts(trials)) {
			n.compareForms(t, trials[i], found)
		}
	}
	n.report(t)
}

// compareForms reports where readers differ from Go's, or refuse, or see another model.
func (n *tally) compareForms(t *testing.T, tr trial, found map[string]reading[fields]) {
	t.Helper()
	kind, body, _ := strings.Cut(string(tr.sent), "\n")
	want, err := readGo(kind, body)
	found["go"] = reading[fields]{Read: want}
	if err != nil {
		found["go"] = reading[fields]{Error: err.Error()}
	}
	for _, name := range sortedKeys(found) {
		r := found[name]
		n.readings++
		model := r.Read.Fields["model"]
		switch {
		case r.Error != "":
			n.refused++
			n.differs(t, tr, name, r.Error)
		case !same(r.Read, want):
			n.differs(t, tr, name, fmt.Sprintf("%v, while Go reads %v", r.Read, want))
		case len(model) > 1 || len(model) == 1 && model[0] != base64.StdEncoding.EncodeToString([]byte(granted)):
			n.differs(t, tr, name, fmt.Sprintf("the models %q", model))
		}
	}
}

// same reports whether two readers have the same. A reader that has no files may have no map of them.
func same(a, b fields) bool {
	a.Files, b.Files = unescaped(a.Files), unescaped(b.Files)
	return len(a.Fields) == len(b.Fields) && len(a.Files) == len(b.Files) &&
		(len(a.Fields) == 0 || reflect.DeepEqual(a.Fields, b.Fields)) && (len(a.Files) == 0 || reflect.DeepEqual(a.Files, b.Files))
}

// unescaped has the filenames as formidable shows them: unlike all others it decodes what browsers write for
// quotes, and entities of HTML. A filename decides nothing.
func unescaped(files map[string][][2]string) map[string][][2]string {
	out := map[string][][2]string{}
	for name, list := range files {
		for _, file := range list {
			file[0] = html.UnescapeString(strings.ReplaceAll(file[0], "%22", `"`))
			out[name] = append(out[name], file)
		}
	}
	return out
}

// readGo reads a form with Go's own package.
func readGo(kind, body string) (f fields, err error) {
	f.Fields = map[string][]string{}
	f.Files = map[string][][2]string{}
	_, params, err := mime.ParseMediaType(kind)
	if err != nil {
		return f, err
	}
	for parts := multipart.NewReader(strings.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return f, err
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, part); err != nil {
			return f, err
		}
		text := base64.StdEncoding.EncodeToString(content.Bytes())
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return f, err
		}
		name := part.FormName()
		if filename, file := disposition["filename"]; file {
			f.Files[name] = append(f.Files[name], [2]string{filename, text})
		} else {
			f.Fields[name] = append(f.Fields[name], text)
		}
	}
}

// randomForm is a form much like a call's.
func randomForm(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString(rarely(r, "x\r\n", "\r\n", "\r", "\n", "--b", " "))
	parts := []string{randomPart(r, `form-data; name="model"`, "ok")}
	for range r.Intn(4) {
		parts = append(parts, randomPart(r, randomDisposition(r), randomContent(r)))
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	b.WriteString(strings.Join(parts, ""))
	b.WriteString(one(r, "--b--\r\n", "--b--\r\n", "--b--"))
	if r.Intn(10) == 0 {
		b.WriteString(one(r, "\r\n", " ", "--b\r\n", "x") + parts[0] + "--b--\r\n")
	}
	return b.String()
}

// rarely is one of several texts, one time in twenty.
func rarely(r *rand.Rand, list ...string) string {
	if r.Intn(20) > 0 {
		return ""
	}
	return one(r, list...)
}

func randomPart(r *rand.Rand, disposition, content string) string {
	end := func() string {
		if odd := rarely(r, "\n", "\r", "\r\r\n", " \r\n", ""); odd != "" {
			return odd
		}
		return "\r\n"
	}
	headers := []string{"Content-Disposition: " + disposition}
	if r.Intn(3) == 0 {
		headers = append(headers, one(r, "Content-Type: text/plain", "Content-Type: text/plain; charset=utf-8", "Content-Type: application/octet-stream", "Content-Type: audio/wav",
			"content-type: Audio/Wav; a=\"b c\"", "Content-Length: 3", "Content-Transfer-Encoding: binary"))
	}
	if odd := rarely(r, "Content-Type: text/plain; charset=utf-16", "Content-Type: multipart/mixed; boundary=c", "Content-Transfer-Encoding: base64", "Content-Encoding: gzip",
		`Content-Disposition: form-data; name="model"`, "X: y", " folded"); odd != "" {
		headers = append(headers, odd)
	}
	r.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
	return "--b" + rarely(r, " ", "\t", "x", "--") + end() + strings.Join(headers, end()) + end() + end() + content + end()
}

func randomDisposition(r *rand.Rand) string {
	name := one(r, "x", "file", "prompt", "stream", "purpose", "image[]", "image[]", "a.b", "n", "language", "constructor", "__proto__", "toString")
	text := one(r, `form-data; name="`, `form-data; name="`, `form-data;name="`, `Form-Data; Name="`) + name + `"`
	if odd := rarely(r, `form-data; x-name="model"; name="x"`, `form-data; name="x"; name="model"`, `form-data; name*=utf-8''model`, `attachment; name="model"`, `form-data; name="model[]"`,
		`form-data; name="Model"`, `form-data; name="mod\el"`, `form-data; name=model`, `form-data; name="x"; xname="model"`, `form-data; name="_charset_"`); odd != "" {
		return odd
	}
	if r.Intn(2) == 0 {
		text += one(r, "; ", ";", " ; ") + "filename=" + one(r, `"a.wav"`, `a.wav`, `"ü €.wav"`, `"; name=model"`, `"name=model; x"`, `" a "`, `"a'b"`, `"%22a%0d"`, `"a=b;c"`, `"&#1234;"`, `"a/b"`,
			`"..`+`"`, `"=?utf-8?q?a?="`, `"a:b"`, `""`, `"a\"b"`, `"UTF-8''a"`, `"filename=b"`, `"a,b"`)
	}
	return text
}

func randomContent(r *rand.Rand) string {
	var b strings.Builder
	for range r.Intn(4) {
		b.WriteString(one(r, "x", "ok", "bad", "true", "1", "batch", "\r\n", "\n", "\r", "-", "--", "\r\n--", "\n--b", "\r\n\r\n", "\x00", "\xff\xfe", "é", "=41", "Content-Disposition: form-data; name=\"model\"\r\n\r\nbad",
			`{"body":{"model":"ok"},"url":"/v1/embeddings"}`, `{"body":{"model":"bad"}}`, strings.Repeat("y", 5000), " ", "%41", "&", "+"))
	}
	return b.String()
}
