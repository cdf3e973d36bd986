package plain

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const plainest = "POST /v1/chat HTTP/1.1\r\nHost: gateway:8080\r\nContent-Length: 2\r\n\r\n"

// with is the plainest head with one more line.
func with(line string) string {
	return strings.TrimSuffix(plainest, "\r\n") + line + "\r\n\r\n"
}

var plainHeads = map[string]string{
	"plainest":            plainest,
	"as of httpx":         with("Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nUser-Agent: OpenAI/Python 1.54.0\r\nX-Stainless-Arch: x64"),
	"any case of letters": "POST /v1/chat HTTP/1.1\r\nhOST: gateway\r\ncontent-LENGTH: 0\r\nCONNECTION: Keep-Alive\r\n\r\n",
	"a query":             "POST /v1/chat?a=b&c=d HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 2\r\n\r\n",
	"blanks":              "POST /v1/chat HTTP/1.1\r\nHost:gateway\r\nContent-Length: \t2 \r\nA:\r\n\r\n",
	"a value in UTF-8":    with("A: größer"),
	"pragma":              with("Pragma: no-cache"),
	"a header twice":      with("A: b\r\na: c"),
	"two slashes":         strings.Replace(plainest, "/v1", "//v1", 1),
	"a fragment":          strings.Replace(plainest, "/chat", "/chat?#a", 1),
	"cookies":             with("Cookie: a=b; c=d"),
}

var otherHeads = map[string]string{
	"nothing":                "",
	"half a line":            "POST /v1/chat HT",
	"no end":                 strings.TrimSuffix(plainest, "\r\n"),
	"half an end":            strings.TrimSuffix(plainest, "\n"),
	"GET":                    strings.Replace(plainest, "POST", "GET", 1),
	"post":                   strings.Replace(plainest, "POST", "post", 1),
	"HTTP/1.0":               strings.Replace(plainest, "1.1", "1.0", 1),
	"HTTP/2.0":               strings.Replace(plainest, "1.1", "2.0", 1),
	"no path":                strings.Replace(plainest, "/v1/chat", "", 1),
	"a URL":                  strings.Replace(plainest, "/v1/chat", "http://gateway/v1/chat", 1),
	"a path with a blank":    strings.Replace(plainest, "/v1/chat", "/v1/ chat", 1),
	"a path beyond ASCII":    strings.Replace(plainest, "/v1/chat", "/v1/größer", 1),
	"an empty line first":    "\r\n" + plainest,
	"lines without CR":       strings.ReplaceAll(plainest, "\r\n", "\n"),
	"a bad escape":           strings.Replace(plainest, "/v1", "/%zz", 1),
	"a line without CR":      with("A: b\nC: d"),
	"a folded header":        with("A: b\r\n c"),
	"a blank before a colon": with("A : b"),
	"no colon":               with("A"),
	"no name":                with(": b"),
	"a name with a dot":      with("A.B: c"),
	"a zero":                 with("A: b\x00"),
	"a CR":                   with("A: b\rc"),
	"no Host":                "POST /v1/chat HTTP/1.1\r\nContent-Length: 2\r\n\r\n",
	"two Hosts":              with("Host: other"),
	"a bad Host":             strings.Replace(plainest, "gateway:8080", "gate/way", 1),
	"no length":              "POST /v1/chat HTTP/1.1\r\nHost: gateway\r\n\r\n",
	"two lengths":            with("Content-Length: 3"),
	"the same length twice":  with("Content-Length: 2"),
	"two lengths in one":     strings.Replace(plainest, "h: 2", "h: 2, 2", 1),
	"a signed length":        strings.Replace(plainest, "h: 2", "h: +2", 1),
	"a length of letters":    strings.Replace(plainest, "h: 2", "h: 0x2", 1),
	"an empty length":        strings.Replace(plainest, "h: 2", "h: ", 1),
	"a long length":          strings.Replace(plainest, "h: 2", "h: 1000000000000000", 1),
	"chunks":                 with("Transfer-Encoding: chunked"),
	"a trailer":              with("Trailer: A"),
	"an upgrade":             with("Upgrade: websocket"),
	"an expectation":         with("Expect: 100-continue"),
	"close":                  with("Connection: close"),
	"hop-by-hop headers":     with("Connection: keep-alive, A"),
	"HTTP/2":                 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"TLS":                    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

func TestPlainHead(t *testing.T) {
	for name, raw := range plainHeads {
		if h, ok := plainHead([]byte(raw + "{}")); !ok || h.size != len(raw) {
			t.Errorf("%s: plain is %t, and its size %d, not %d", name, ok, h.size, len(raw))
		}
	}
	for name, raw := range otherHeads {
		if _, ok := plainHead([]byte(raw)); ok {
			t.Errorf("%s is taken for plain", name)
		}
	}
}

// Requests of usual clients are read without net/http, and none that it reads in a way of its own.
func TestHead_Request(t *testing.T) {
	byNetHTTP := []string{"any case of letters", "blanks", "a value in UTF-8", "pragma", "a header twice"}
	for name, raw := range plainHeads {
		h, _ := plainHead([]byte(raw))
		if here := h.request(t.Context()) != nil; here == slices.Contains(byNetHTTP, name) {
			t.Errorf("%s is read here: %t", name, here)
		}
	}
}

// Whatever is plain, net/http reads in the same way: the head ends where we say, and then comes a body of known length.
func FuzzPlainHead(f *testing.F) {
	for _, heads := range []map[string]string{plainHeads, otherHeads} {
		for _, raw := range heads {
			f.Add([]byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, ok := plainHead(raw)
		if !ok {
			return
		}
		n := h.size
		rest := bytes.NewReader(raw)
		buffered := bufio.NewReader(rest)
		r, err := http.ReadRequest(buffered)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if left := buffered.Buffered() + rest.Len(); left != len(raw)-n {
			t.Errorf("%q: the head ends before %d bytes, not %d", raw, left, len(raw)-n)
		}
		if r.Method != http.MethodPost || r.ContentLength < 0 || r.TransferEncoding != nil || r.Trailer != nil || r.Close || r.Host == "" {
			t.Errorf("%q: %+v", raw, r)
		}
		ours, err := readRequest(t.Context(), bufio.NewReader(bytes.NewReader(raw)), &h)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		r.Body, ours.Body = nil, nil
		if diff := cmp.Diff(r, ours, cmpopts.IgnoreUnexported(http.Request{})); diff != "" {
			t.Errorf("%q: net/http - ours +:\n%s", raw, diff)
		}
		if strings.Contains(string(raw[:n-4]), "\r\n\r\n") {
			t.Errorf("%q: the head ends before", raw)
		}
		if served := statusOf(t, string(raw[:n])); served == http.StatusBadRequest {
			t.Errorf("%q is refused by net/http's server", raw)
		}
	})
}

// statusOf is how net/http's server answers a request. Of its body nothing is read.
func statusOf(t *testing.T, raw string) int {
	client, l := newPipe()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	defer client.Close()
	go func() { _, _ = io.WriteString(client, raw) }()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return resp.StatusCode
}

// handlers are what handlers do. Each has read its request.
var handlers = map[string]http.HandlerFunc{
	"nothing":      func(http.ResponseWriter, *http.Request) {},
	"a short body": func(w http.ResponseWriter, _ *http.Request) { write(w, "hello") },
	"HTML":         func(w http.ResponseWriter, _ *http.Request) { write(w, "<html>") },
	"a status":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
	"two statuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400); w.WriteHeader(200) },
	"a status without a name": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(599)
		write(w, "hello")
	},
	"headers": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h["A"] = []string{"b", "c"}
		h["B"] = []string{" blanks\t"}
		h["C"] = []string{"d\r\nEvil: e"}
		h["No Name"] = []string{"f"}
		h["Empty"] = []string{""}
		h["X.Y!#$%&'*+^`|~"] = []string{"g"}
		h["None"] = nil
		write(w, "{}")
	},
	"headers that come late": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		write(w, big)
		w.Header().Set("Late", "a")
	},
	"no content type": func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil; write(w, "hello") },
	"no date": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = []string{"today"}
		write(w, "hello")
	},
	"an encoded body": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "a")
		write(w, "hello")
	},
	"a length":               lengthOf("5", "hello"),
	"a length of a big body": lengthOf(strconv.Itoa(len(big)), big),
	"too long":               lengthOf("4", "hello"),
	"too short":              lengthOf("6", "hello"),
	"too short by far":       lengthOf(strconv.Itoa(len(big)+1), big),
	"a length without more":  lengthOf("0", ""),
	"a body of 2 KB":         func(w http.ResponseWriter, _ *http.Request) { write(w, big[:2048]) },
	"a body above 2 KB":      func(w http.ResponseWriter, _ *http.Request) { write(w, big[:2048]); write(w, "a") },
	"a big body":             func(w http.ResponseWriter, _ *http.Request) { write(w, big); write(w, big) },
	"a body in pieces": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3000 {
			write(w, big[:i%70])
		}
	},
	"flushed pieces": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 30 {
			write(w, big[:i])
			flush(w)
		}
	},
	"flushed before the body": func(w http.ResponseWriter, _ *http.Request) { flush(w); write(w, "hello") },
	"flushed and no more":     func(w http.ResponseWriter, _ *http.Request) { flush(w) },
	"flushed with a length":   func(w http.ResponseWriter, _ *http.Request) { lengthOf("5", "hello")(w, nil); flush(w) },
	"no content":              func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
	"no content, with a body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); refused(w) },
	"not modified":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304); refused(w) },
	"the end":                 func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close"); write(w, "hello") },
	"a long head": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 20 {
			w.Header().Set("A"+strconv.Itoa(i), big[:900])
		}
		write(w, "hello")
	},
	"a panic":                  func(http.ResponseWriter, *http.Request) { panic("what") },
	"an abort":                 func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"an abort in mid-answer":   func(w http.ResponseWriter, _ *http.Request) { write(w, big); flush(w); panic(http.ErrAbortHandler) },
	"a body that is read late": func(w http.ResponseWriter, r *http.Request) { write(w, "a"); _, _ = io.Copy(w, r.Body) },
}

func write(w http.ResponseWriter, text string) { _, _ = io.WriteString(w, text) }

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// refused writes a body where none may be.
func refused(w http.ResponseWriter) {
	if _, err := io.WriteString(w, "hello"); !errors.Is(err, http.ErrBodyNotAllowed) {
		panic(err)
	}
}

func lengthOf(length, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", length)
		_, err := io.WriteString(w, body)
		if len(length) == 1 && "0"+body < length+body && err != nil && !errors.Is(err, http.ErrContentLength) {
			panic(err)
		}
	}
}

// Whatever a handler does, clients see what they would see of net/http's server, and can go on with the connection or not.
func TestAnswersAreThoseOfNetHTTP(t *testing.T) {
	for name, does := range handlers {
		for _, reads := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", unread"}[reads], func(t *testing.T) {
				handler := func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/next" {
						echo(w, r)
						return
					}
					if reads {
						_, _ = io.ReadAll(r.Body)
					}
					does(w, r)
				}
				ours := dial(t, serving(t, handler))
				theirs := dial(t, servingBy(t, settings(handler)))
				for _, path := range []string{"/", "/next", "/", "/next"} {
					raw := request(path, "question")
					_, _ = io.WriteString(ours, raw)
					_, _ = io.WriteString(theirs, raw)
					if diff := cmp.Diff(theirs.receive(), ours.receive()); diff != "" {
						t.Fatalf("%s: net/http - ours +:\n%s", path, diff)
					}
				}
			})
		}
	}
}

// Requests of all kinds are answered as by net/http's server, by whoever serves them.
func TestRequestsAreThoseOfNetHTTP(t *testing.T) {
	see := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		r.RemoteAddr = ""
		h := w.Header()
		h.Set("Content-Type", "text/plain")
		for name, values := range r.Header {
			h["Saw-"+name] = values
		}
		write(w, strings.Join([]string{r.Method, r.URL.String(), r.RequestURI, r.Proto, r.Host, strconv.FormatInt(r.ContentLength, 10), string(body)}, " "))
		if err != nil {
			write(w, " broken")
		}
	}
	for _, heads := range []map[string]string{plainHeads, otherHeads} {
		for name, head := range heads {
			t.Run(name, func(t *testing.T) {
				ours := dial(t, serving(t, see))
				theirs := dial(t, servingBy(t, settings(see)))
				for _, c := range []*client{ours, theirs} {
					c.send(request("/first", "a") + head)
					if head != "" && !strings.HasSuffix(head, ": 0\r\nCONNECTION: Keep-Alive\r\n\r\n") {
						c.send("{}")
					}
					_ = c.Conn.(*net.TCPConn).CloseWrite() // it may be closed already
				}
				for range 3 {
					a, b := theirs.receive(), ours.receive()
					if a.Status == http.StatusBadRequest || a.Status == http.StatusHTTPVersionNotSupported {
						b.Broken = a.Broken // by unread bytes behind what was refused
					}
					if diff := cmp.Diff(a, b); diff != "" {
						t.Fatalf("net/http - ours +:\n%s", diff)
					}
					if a.Failed || a.Close {
						return
					}
				}
			})
		}
	}
}
