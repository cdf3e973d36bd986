package form

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

const kind = "multipart/form-data; boundary=B"

// body is a form with the boundary B: headers and contents in turn.
func body(parts ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(parts); i += 2 {
		b.WriteString("--B\r\n" + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
	}
	return b.String() + "--B--\r\n"
}

func named(name string) string { return `Content-Disposition: form-data; name="` + name + `"` }

const file = "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav"

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []Part
	}{
		"a text":                       {body(named("model"), "m"), []Part{{Name: "model", Content: []byte("m")}}},
		"empty":                        {body(named("model"), ""), []Part{{Name: "model", Content: []byte{}}}},
		"no line end at the end":       {strings.TrimSuffix(body(named("a"), "1", named("b"), "2"), "\r\n"), []Part{{Name: "a", Content: []byte("1")}, {Name: "b", Content: []byte("2")}}},
		"a file":                       {body(file, "\x00\xff\n\r\n"), []Part{{Name: "file", Filename: "a.wav", Type: "audio/wav", Content: []byte("\x00\xff\n\r\n")}}},
		"a file without a type":        {body(named("file")+`; filename="é ;=%22.wav"`, "x"), []Part{{Name: "file", Filename: "é ;=%22.wav", Type: "application/octet-stream", Content: []byte("x")}}},
		"tokens and odd cases":         {body("content-disposition:FORM-DATA ;  Name=a;filename=b.c", "x"), []Part{{Name: "a", Filename: "b.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"a file in folders":            {body(named("f")+`; filename="/a/b.c"`, ""), []Part{{Name: "f", Filename: "b.c", Type: "application/octet-stream", Content: []byte{}}}},
		"what changes nothing":         {body(named("a")+"\r\nContent-Length: 9\r\nContent-Transfer-Encoding: binary\r\nContent-Type: text/plain; charset=UTF-8", "x"), []Part{{Name: "a", Content: []byte("x")}}},
		"many of a name":               {body(named("image[]"), "1", named("image[]"), "2"), []Part{{Name: "image[]", Content: []byte("1")}, {Name: "image[]", Content: []byte("2")}}},
		"headers in a content":         {body(named("a"), "\r\n"+named("b")+"\r\n\r\nx"), []Part{{Name: "a", Content: []byte("\r\n" + named("b") + "\r\n\r\nx")}}},
		"half of a boundary":           {body(named("a"), "\r\n--\r\n-B\r\n--b"), []Part{{Name: "a", Content: []byte("\r\n--\r\n-B\r\n--b")}}},
		"as .NET writes it":            {body("Content-Type: audio/mpeg\r\nContent-Disposition: form-data; name=f; filename=\"=?utf-8?B?w7wubXAz?=\"; filename*=utf-8''%C3%BC.mp3", "x"), []Part{{Name: "f", Filename: "ü.mp3", Type: "audio/mpeg", Content: []byte("x")}}},
		"as Apache's client writes it": {body("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit", "x"), []Part{{Name: "a", Content: []byte("x")}}},
		"as Go writes it":              {body(named("f")+`; filename="a\"b\\c.d"`, "x"), []Part{{Name: "f", Filename: "a_b__c.d", Type: "application/octet-stream", Content: []byte("x")}}},
		"as Unity and Ruby write it":   {"\r\n" + body("Content-ID: <x>\r\nMIME-Version: 1.0\r\n"+named("a"), "x") + "\r\n", []Part{{Name: "a", Content: []byte("x")}}},
		"as mail is written":           {"This is a form.\r\n\r\n" + strings.Replace(body(named("a"), "x"), "--B\r\n", "--B \t\r\n", 1) + "\r\nthe end", []Part{{Name: "a", Content: []byte("x")}}},
		"as Delphi writes it":          {body(named("a")+"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable", "x"), []Part{{Name: "a", Content: []byte("x")}}},
		"with a file's size and date":  {body(named("f")+`; filename=b.c; size=1; modification-date="Sun, 29 Nov 2026 13:00:00 +0000";`, "x"), []Part{{Name: "f", Filename: "b.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"with headers of its own":      {body(named("f")+"; filename=b.c\r\nX-Part: 1\r\nLast-Modified: x\r\nContent-Encoding: Identity", "x"), []Part{{Name: "f", Filename: "b.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"no type of a file":            {body(named("f")+"; filename=b.c\r\nContent-Type: null", "x"), []Part{{Name: "f", Filename: "b.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"an empty type":                {body(named("f")+"; filename=b.c\r\nContent-Type:", "x"), []Part{{Name: "f", Filename: "b.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"a filename in Latin 1":        {body(named("f")+"; filename=\"\xfc.c\"", "x"), []Part{{Name: "f", Filename: "?.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"an extended name alone":       {body(named("f")+`; filename*=UTF-8'en'a%20%22b%0D%0A.c`, "x"), []Part{{Name: "f", Filename: "a _b__.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"of a charset unknown":         {body(named("f")+`; filename*=latin1''%FC; filename="u.c"`, "x"), []Part{{Name: "f", Filename: "u.c", Type: "application/octet-stream", Content: []byte("x")}}},
		"a type in its usual form":     {body(named("f")+"; filename=x\r\nContent-Type: AUDIO/Wav;b=1;A=\"2 \"", ""), []Part{{Name: "f", Filename: "x", Type: "audio/wav; a=\"2 \"; b=1", Content: []byte{}}}},
	} {
		f, err := Parse([]byte(tc.body), kind)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testkit.Same(t, tc.want, f.Parts, name)
	}
}

// Whatever some reader takes for another form is refused.
func TestAudit_M3_Refuses(t *testing.T) {
	ok := named("model")
	two := "\r\n--B\r\n" + named("model") + "\r\n\r\nbad"
	for name, body := range map[string]string{
		"nothing":                           "",
		"no boundary":                       "x",
		"no parts":                          "--B--\r\n",
		"no closing boundary":               "--B\r\n" + ok + "\r\n\r\nok\r\n",
		"an escape before a parameter":      body(named("f")+`; filename="a\"; name="`, ""),
		"a text in Latin 1":                 body(ok+"\r\nContent-Type: text/plain; charset=ISO-8859-1", "\u00e9"),
		"a bare CR in the preamble":         "x\r--B\r\n" + named("model") + "\r\n\r\nbad\r" + body(ok, "ok"),
		"a part delimited by bare LF":       body(named("x"), "foo\n--B\nContent-Disposition: form-data; name=\"model\"\n\nbad", ok, "ok"),
		"bare LF":                           strings.ReplaceAll(body(ok, "ok"), "\r\n", "\n"),
		"bare LF behind a boundary":         strings.Replace(body(ok, "ok"), "--B\r\n", "--B\n", 1),
		"bare LF before a boundary":         strings.Replace(body(ok, "ok"), "ok\r\n", "ok\n", 1),
		"bare CR before a boundary":         strings.Replace(body(ok, "ok"), "ok\r\n", "ok\r", 1),
		"nothing before a boundary":         body(ok, "ok--B\r\n"+named("model")+"\r\n\r\nbad"),
		"a longer boundary":                 body(ok, "ok\r\n--Bx\r\n"+named("model")+"\r\n\r\nbad"),
		"two closing boundaries":            strings.TrimSuffix(body(ok, "ok"), "\r\n") + two + "\r\n--B--",
		"two closing boundaries, CR LF":     body(ok, "ok") + "--B--\r\n",
		"a preamble without its line end":   "x" + body(ok, "ok"),
		"a longer closing boundary":         strings.TrimSuffix(body(ok, "ok"), "\r\n") + "x\r\n",
		"a boundary in the epilogue":        body(ok, "ok") + "x--B\r\n",
		"something quoted":                  body(named("x")+"\r\nContent-Transfer-Encoding: quoted-printable", "m=6Fdel"),
		"a head that ends with bare LF":     "--B\r\n" + named("x") + "\n\n--B--\r\n--B\r\n" + named("model") + "\r\n\r\nbad\r\n--B--\r\n",
		"a bare LF in a head":               body(named("x")+"\nContent-Type: a/b", ""),
		"no empty line":                     "--B\r\n" + ok + "\r\n--B--\r\n",
		"no head":                           "--B\r\n\r\nok\r\n--B--\r\n",
		"no head, but an empty line":        body("", "ok"),
		"a folded line":                     body("Content-Disposition: form-data;\r\n name=\"model\"", "bad"),
		"no Content-Disposition":            body("Content-Type: text/plain", "bad"),
		"two":                               body(named("x")+"\r\n"+named("model"), "bad"),
		"an attachment":                     body(`Content-Disposition: attachment; name="model"`, "bad"),
		"another parameter":                 body(`Content-Disposition: form-data; x-name="model"; name="x"`, "bad"),
		"another parameter behind":          body(`Content-Disposition: form-data; name="x"; xname="model"`, "bad"),
		"two names":                         body(`Content-Disposition: form-data; name="x"; name="model"`, "bad"),
		"two names, one in capitals":        body(`Content-Disposition: form-data; name="x"; NAME="model"`, "bad"),
		"an extended name":                  body(`Content-Disposition: form-data; name*=utf-8''model`, "bad"),
		"two extended filenames":            body(named("file")+`; filename*=utf-8''a; filename*=utf-8''b`, ""),
		"an extended filename that is none": body(named("file")+`; filename*=b`, ""),
		"an extended filename, odd charset": body(named("file")+`; filename*=utf-16''b`, ""),
		"an extended folder":                body(named("file")+`; filename="a"; filename*=utf-8''a%2F..`, ""),
		"an empty filename":                 body(named("model")+`; filename=""`, "bad"),
		"an escape":                         body(`Content-Disposition: form-data; name="mod\el"`, "bad"),
		"an open quote":                     body(`Content-Disposition: form-data; name="model`, "bad"),
		"something behind a quote":          body(`Content-Disposition: form-data; name="x"model`, "bad"),
		"a name with an encoded letter":     body(named("mod%65l"), "bad"),
		"a name with a blank":               body(named(" model"), "bad"),
		"a name with a zero byte":           body(named("model\x00"), "bad"),
		"a name that sets a charset":        body(named("_charset_"), "utf-7"),
		"a name that is a prototype":        body(named("__proto__[model]"), "bad"),
		"a constructor":                     body(named("Constructor"), "bad"),
		"a folder":                          body(named("f")+`; filename="a/"`, ""),
		"the folder above":                  body(named("f")+`; filename="a/.."`, ""),
		"no name":                           body(`Content-Disposition: form-data; filename="x"`, "bad"),
		"quoted-printable":                  body(ok+"\r\nContent-Transfer-Encoding: quoted-printable", "wild-=67=70t"),
		"base64":                            body(file+"\r\nContent-Transfer-Encoding: base64", "eA=="),
		"a charset":                         body(ok+"\r\nContent-Type: text/plain; charset=utf-16", "b\x00a\x00d\x00"),
		"another header":                    body(ok+"\r\nContent-Encoding: gzip", "bad"),
		"a space before the colon":          body("Content-Disposition : form-data; name=\"model\"", "bad"),
		"a form in a part":                  body(named("x")+"\r\nContent-Type: multipart/mixed; boundary=C", "bad"),
		"a form in a file":                  body(named("x")+"; filename=a\r\nContent-Type: multipart/mixed; boundary=C", "bad"),
		"two types":                         body(file+"\r\nContent-Type: text/plain", ""),
		"a charset of no type":              body(named("x")+"\r\nContent-Type: plain; charset=utf-16", ""),
		"a text that is not UTF-8":          body(ok, "\xff"),
		"a head without an end":             "--B\r\n" + named(strings.Repeat("x", 1<<20)),
		"a head that is too long":           body(file+`; x="`+strings.Repeat("x", maxHeaders)+`"`, ""),
		"a filename that is too long":       body(named("f")+`; filename="`+strings.Repeat("x", maxFilename+1)+`"`, ""),
		"a name that is too long":           body(named(strings.Repeat("x", maxName+1)), ""),
		"a filename with a control char":    body(named("f")+"; filename=\"a\tb\"", ""),
		"too many parts":                    body(strings.Split(strings.Repeat(named("x")+"|1|", maxParts+1), "|")...),
		"a boundary only":                   "--B",
		"half a closing boundary":           "--B\r\n" + ok + "\r\n\r\nok\r\n--B-",
		"a delimiter with a doubled letter": "--BB\r\n" + ok + "\r\n\r\nok\r\n--B--",
	} {
		if f, err := Parse([]byte(body), kind); err == nil {
			t.Errorf("%s is read as %+v", name, f.Parts)
		}
	}
	if _, err := Parse([]byte(body(ok, "ok")), "multipart/form-data;charset=UTF-8;boundary=B"); err != nil { // as Spring writes it
		t.Error(err)
	}
	for _, kind := range []string{
		"", "multipart/form-data", "multipart/mixed; boundary=B", "multipart/form-data; boundary=B; charset=utf-7", "multipart/form-data; boundary=B; charset=utf-8; x=y", "multipart/form-data; boundary=B; boundary=C",
		"multipart/form-data; boundary=", "multipart/form-data; boundary*=us-ascii''B", `multipart/form-data; boundary="B "`, `multipart/form-data; boundary="\B"`,
		"multipart/form-data; boundary=\"B\u00e9\"", "multipart/form-data; boundary=" + strings.Repeat("B", 71), "application/x-www-form-urlencoded",
	} {
		if _, err := Parse([]byte(body(ok, "ok")), kind); err == nil {
			t.Errorf("the Content-Type %q is accepted", kind)
		}
	}
}

// Each byte of a form is looked at once, and a form twice as large is not twice as many allocations.
func TestAudit_M1_FormsAreReadOnce(t *testing.T) {
	for name, build := range map[string]func(n int) string{
		"a file":             func(n int) string { return body(file, strings.Repeat("x", n)) },
		"nearly boundaries":  func(n int) string { return body(file, strings.Repeat("\r\n--A", n/5)) },
		"dashes":             func(n int) string { return body(file, strings.Repeat("-", n)) },
		"line ends":          func(n int) string { return body(file, strings.Repeat("\r\n\r\n", n/4)) },
		"never ends":         func(n int) string { return "--B\r\n" + file + "\r\n\r\n" + strings.Repeat("\r\n", n/2) },
		"a head without end": func(n int) string { return "--B\r\n" + strings.Repeat("a: b\r\n", n/6) + "--B--" },
		"parts":              func(n int) string { return body(strings.Split(strings.Repeat(named("x")+"||", n/30), "|")...) },
	} {
		var before uint64
		for n := 64 << 10; n <= 256<<10; n *= 2 {
			form := []byte(build(n))
			allocations := testkit.Allocs(t, 4, func() { _, _ = Parse(form, kind) })
			if before > 0 && allocations > before+100 {
				t.Errorf("%s: %d bytes take %d allocations, half as many %d", name, len(form), allocations, before)
			}
			before = allocations
		}
	}
}

// Contents are slices of what was read, also in what is sent.
func TestContentsAreNotCopied(t *testing.T) {
	whole := []byte(body(file, strings.Repeat("x", 8<<20)))
	f, bad := Parse(whole, kind)
	if bad != nil {
		t.Fatal(bad)
	}
	if &f.Parts[0].Content[0] != &whole[bytes.Index(whole, []byte("\r\n\r\n"))+4] {
		t.Error("the content is a copy")
	}
	e := f.Encode()
	if &e.pieces[1][0] != &f.Parts[0].Content[0] {
		t.Error("what is sent is a copy")
	}
}

// What is written is read as the same form, by this package and by another reader.
func checkWritten(t *testing.T, f *Form) {
	t.Helper()
	e := f.Encode()
	sent, err := io.ReadAll(iotest.OneByteReader(e.Reader()))
	if whole, _ := io.ReadAll(e.Reader()); !bytes.Equal(whole, sent) {
		t.Fatalf("a second reader reads %q, the first %q", whole, sent)
	}
	if err != nil || int64(len(sent)) != e.Size {
		t.Fatalf("%d of %d bytes are written: %v", len(sent), e.Size, err)
	}
	again, problem := Parse(sent, e.Type)
	if problem != nil {
		t.Fatalf("%q is refused: %v", sent, problem)
	}
	if diff := cmp.Diff(f, again); diff != "" {
		t.Fatalf("%q is another form (-want +got):\n%s", sent, diff)
	}
	_, params, err := mime.ParseMediaType(e.Type)
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(bytes.NewReader(sent), params["boundary"])
	for i := range f.Parts {
		p := &f.Parts[i]
		part, err := parts.NextRawPart()
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		content, err := io.ReadAll(part)
		if err != nil || part.FormName() != p.Name || part.Header.Get("Content-Type") != p.Type || !bytes.Equal(content, p.Content) {
			t.Fatalf("%q: %q %q %q (%v), want %+v", sent, part.FormName(), part.Header, content, err, *p)
		}
	}
	if _, err := parts.NextRawPart(); !errors.Is(err, io.EOF) {
		t.Fatalf("%q goes on: %v", sent, err)
	}
}

func TestEncode(t *testing.T) {
	f, bad := Parse([]byte(body(file, "\r\n--", named("model"), "m", named("prompt"), "", named("f")+"; filename=\"; name=model\"", "-")), kind)
	if bad != nil {
		t.Fatal(bad)
	}
	f.Text("model", "other")
	f.Text("file", "not this")
	if got := string(f.Parts[1].Content) + string(f.Parts[0].Content); got != "other\r\n--" {
		t.Errorf("the contents become %q", got)
	}
	checkWritten(t, f)
	if a, b := f.Encode(), f.Encode(); a.Type == b.Type {
		t.Errorf("two forms have the boundary of %s", a.Type)
	}
	// A word in it could be read as another type: formidable looks for json anywhere.
	if e := f.Encode(); !regexp.MustCompile(`^multipart/form-data; boundary=[0-9a-f]{32}$`).MatchString(e.Type) {
		t.Errorf("the Content-Type is %s", e.Type)
	}
}

// Edits stand in what is sent, in whatever order they are given.
func TestEncode_Edits(t *testing.T) {
	f := &Form{Parts: []Part{
		{Name: "file", Filename: "a", Type: "a/b", Content: []byte("0123456789"), Edits: []splice.Edit{{Start: 8, End: 10, Text: ""}, {Start: 3, End: 3, Text: "x"}, {Start: 3, End: 5, Text: "yz"}, {Start: 0, End: 1, Text: "<"}}},
		{Name: "empty", Edits: []splice.Edit{{Start: 0, End: 0, Text: "all"}}},
	}}
	e := f.Encode()
	sent, err := io.ReadAll(e.Reader())
	if err != nil || int64(len(sent)) != e.Size {
		t.Fatalf("%d of %d bytes are written: %v", len(sent), e.Size, err)
	}
	again, problem := Parse(sent, e.Type)
	if problem != nil {
		t.Fatal(problem)
	}
	if got := string(again.Parts[0].Content) + " " + string(again.Parts[1].Content); got != "<12xyz567 all" {
		t.Errorf("the contents become %q", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(named("model"), "fast"))
	f.Add(body(file, "\n--B", named("model"), "fast"))
	f.Add("--B \r\n\r\n\r\n--B\t\r\nContent-Disposition: form-data;\r\n name=model\r\n\r\nm\r\n--B--")
	f.Add(body(named("x"), "foo\n--B\n"+named("model")+"\n\nbad", named("model"), "ok"))
	f.Add(strings.TrimSuffix(body(named("model"), "ok"), "\r\n") + "\r\n--B\r\n" + named("model") + "\r\n\r\nbad\r\n--B--")
	f.Add(body(`Content-Disposition: form-data; x-name="model"; name="x"`, "bad", named("model"), "ok"))
	f.Fuzz(func(t *testing.T, body string) {
		if f, err := Parse([]byte(body), kind); err == nil {
			checkWritten(t, f)
		}
	})
}
