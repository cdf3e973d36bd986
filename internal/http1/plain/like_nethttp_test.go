package plain

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
