package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is what a caller sees of a server's answer.
type answer struct {
	Failed  bool // there is none
	Status  int
	Proto   string
	Header  http.Header
	Length  int64
	Chunks  []string // Transfer-Encoding
	Close   bool
	Body    string
	Broken  bool // in its body
	Trailer http.Header
}

func see(through http.RoundTripper, method string) answer {
	r, err := http.NewRequestWithContext(context.Background(), method, "http://host/", nil)
	if err != nil {
		return answer{Failed: true}
	}
	resp, err := through.RoundTrip(r)
	if err != nil {
		return answer{Failed: true}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{
		Status: resp.StatusCode, Proto: resp.Proto, Header: resp.Header, Length: resp.ContentLength,
		Chunks: resp.TransferEncoding, Close: resp.Close, Body: string(body), Broken: err != nil, Trailer: resp.Trailer,
	}
}

var rawAnswers = map[string]string{
	"length":                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello",
	"kept":                   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
	"kept, chunked":          "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"kept in capitals":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\nhello",
	"hop-by-hop headers":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, close\r\n\r\nhello",
	"chunked":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
	"trailers":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
	"trailers unannounced":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
	"trailers twice":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nA: c\r\nB: d\r\n\r\n",
	"trailers and another":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A, C\r\n\r\n5\r\nhello\r\n0\r\nB: b\r\na: c\r\n\r\n",
	"trailers without end":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n",
	"trailers ended by LF":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\n\nmore\r\n\r\n",
	"trailers with no colon": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA\r\n\r\n",
	"trailers of 4 KB":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("b", 4<<10-7) + "\r\n\r\n",
	"trailers beyond 4 KB":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + strings.Repeat("b", 4<<10-6) + "\r\n\r\n",
	"trailers of nothing":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n\r\n\r\n",
	"end of one byte":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r",
	"end of another byte":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\rX\r\n\r\n",
	"empty":                  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"204":                    "HTTP/1.1 204 No Content\r\n\r\n",
	"204 with length":        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
	"304":                    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"to the end":             "HTTP/1.1 200 OK\r\n\r\nhello",
	"close":                  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
	"1.0":                    "HTTP/1.0 200 OK\r\n\r\nhello",
	"1.0 with length":        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"1.0 kept":               "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
	"1.0 chunked":            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"2.0":                    "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"100":                    "HTTP/1.1 100 Continue\r\n\r\n" + ok,
	"103 thrice":             strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 3) + ok,
	"103 and no more":        "HTTP/1.1 103 Early Hints\r\n\r\n",
	"103 without end":        strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", maxHead/30),
	"too short":              "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
	"too long":               "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello",
	"two":                    ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
	"chunks cut":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
	"chunks without end":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"chunks with half end":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
	"chunk of no size":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n",
	"chunk too long":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
	"chunk with extension":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
	"chunks of many sizes":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n005\r\nhello\r\nA\r\n0123456789\r\n0f\r\n0123456789abcde\r\n0\r\n\r\n",
	"chunk without line end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello5\r\nhello\r\n0\r\n\r\n",
	"chunk with half an end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r5\r\nhello\r\n0\r\n\r\n",
	"chunk with other end":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!!5\r\nhello\r\n0\r\n\r\n",
	"chunk ended by LF":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n5\r\nhello\r\n0\r\n\r\n",
	"chunk size with LF":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
	"chunk size with CR":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r5\r\nhello\r\n0\r\n\r\n",
	"chunk size with spaces": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \t\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n",
	"space before the size":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
	"chunk size with a sign": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
	"chunk size with 0x":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
	"chunk size with _":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0_5\r\nhello\r\n0\r\n\r\n",
	"chunk size is missing":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunk size of 17":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
	"chunk size of 16":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0000000000000005\r\nhello\r\n0\r\n\r\n",
	"chunk size of 8, large": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n80000005\r\nhello\r\n0\r\n\r\n",
	"last chunk of zeros":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0000\r\n\r\n",
	"chunks behind the last": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n5\r\nevil!\r\n0\r\n\r\n",
	"chunks of many buffers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat("a", 4096)+"\r\n3\r\nabc\r\n", 30) + "0\r\n\r\n",
	"chunked with length":    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"length with chunked":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunked twice":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunked in capitals":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"unknown encoding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"two lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
	"the same length twice":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"negative length":        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
	"length of letters":      "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
	"lines without CR":       "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
	"folded header":          "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
	"header without colon":   "HTTP/1.1 200 OK\r\nA\r\nContent-Length: 5\r\n\r\nhello",
	"header with a space":    "HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 5\r\n\r\nhello",
	"header with a zero":     "HTTP/1.1 200 OK\r\nA: b\x00c\r\nContent-Length: 5\r\n\r\nhello",
	"same header twice":      "HTTP/1.1 200 OK\r\nA: b\r\nA: c\r\nContent-Length: 5\r\n\r\nhello",
	"header of 200 KB":       "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 200<<10) + "\r\nContent-Length: 5\r\n\r\nhello",
	"header of 300 KB":       "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 300<<10) + "\r\nContent-Length: 5\r\n\r\nhello",
	"status without words":   "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
	"status of two digits":   "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
	"status of letters":      "HTTP/1.1 abc OK\r\nContent-Length: 5\r\n\r\nhello",
	"status 099":             "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello",
	"status 600":             "HTTP/1.1 600 What\r\nContent-Length: 5\r\n\r\nhello",
	"no HTTP":                "SSH-2.0-OpenSSH_9.6\r\n",
	"garbage before":         "garbage\r\n" + ok,
	"an empty line before":   "\r\n" + ok,
	"nothing":                "",
	"half a head":            "HTTP/1.1 200 OK\r\nContent-Le",
	"an answer of 500":       "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nhello",
	"lower case":             "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: b, c\r\n\r\nhello",
	"names of both cases":    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 4\r\n\r\nhello",
	"value without a space":  "HTTP/1.1 200 OK\r\nContent-Length:5\r\nA:b\r\n\r\nhello",
	"value with spaces":      "HTTP/1.1 200 OK\r\nContent-Length:   5  \r\nA: \tb \r\n\r\nhello",
	"value of nothing":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: \r\nB:\r\n\r\nhello",
	"value with a tab":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\tc\r\n\r\nhello",
	"value with LF":          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\nC: d\r\n\r\nhello",
	"value with CR":          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\rC: d\r\n\r\nhello",
	"value beyond ASCII":     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: ä\r\n\r\nhello",
	"head that ends in LF":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhell\r\n\r\no",
	"no name":                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n: b\r\n\r\nhello",
	"odd name":               "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA!: b\r\n\r\nhello",
	"length with a sign":     "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
	"length with a zero":     "HTTP/1.1 200 OK\r\nContent-Length: 05\r\n\r\nhello",
	"length of 20 digits":    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
	"two lengths in one":     "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
	"pragma":                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nPragma: no-cache\r\n\r\nhello",
	"trailer with a length":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTrailer: A\r\n\r\nhello",
	"encoding of identity":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: identity\r\n\r\nhello",
	"other words":            "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\n\r\nhello",
	"a body of many buffers": "HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("hello", 10_000),
}

// The head of an ordinary answer is read without net/http, and none that net/http reads in a way of its own.
func TestPlainAnswers(t *testing.T) {
	plainest := []string{"length", "kept", "kept, chunked", "lower case", "two", "too long", "too short", "length with a zero", "a body of many buffers"}
	const inChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, raw := range rawAnswers {
		x := &exchange{conn: &conn{}}
		x.conn.reader.Reader = *bufio.NewReaderSize(strings.NewReader(raw), readerBuffer)
		here := x.plainAnswer(get(t.Context())) != nil
		plain := slices.Contains(plainest, name) || strings.HasPrefix(raw, inChunks)
		if here != plain {
			t.Errorf("%s is read here: %v", name, here)
		}
	}
}

// once sends an answer, behind which the connection ends.
func once(raw string) func(net.Conn, int64) {
	return func(conn net.Conn, _ int64) {
		if readRequest(bufio.NewReader(conn)) == nil {
			_, _ = io.WriteString(conn, raw)
		}
	}
}

// checkLikeNetHTTP compares how this transport and net/http's see an answer.
func checkLikeNetHTTP(t *testing.T, method, raw string) {
	checkAlike(t, serve(t, once(raw)).transport(t), method, raw)
}

// checkAlike compares how a transport sees an answer with how net/http's does.
func checkAlike(t *testing.T, ours http.RoundTripper, method, raw string) {
	theirs := serve(t, once(raw))
	defer theirs.settings.CloseIdleConnections()
	got := see(ours, method)
	want := see(theirs.settings, method)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s %.200q: net/http - ours +:\n%s", method, raw, diff)
	}
}

// Answers are read as net/http reads them.
func TestAnswersAreReadAsByNetHTTP(t *testing.T) {
	log.SetOutput(io.Discard) // of net/http, about surplus bytes
	for name, raw := range rawAnswers {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(fmt.Sprint(name, " ", method), func(t *testing.T) { checkLikeNetHTTP(t, method, raw) })
		}
	}
}

// It does not matter in which pieces an answer comes.
func TestAnswersInPieces(t *testing.T) {
	log.SetOutput(io.Discard)
	for name, raw := range rawAnswers {
		if len(raw) > 1000 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			checkPieces(t, raw, 1, 0, func(script func(net.Conn, int64)) []http.RoundTripper {
				return []http.RoundTripper{serve(t, script).transport(t)}
			})
		})
	}
}

// The same holds for sockets, whose reader has a buffer only from when something has come until all of that was read.
func TestAnswersInPieces_Sockets(t *testing.T) {
	log.SetOutput(io.Discard)
	for name, raw := range rawAnswers {
		if len(raw) > 400 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPieces(t, raw, 4, time.Millisecond, func(script func(net.Conn, int64)) []http.RoundTripper {
				read := serveTCP(t, script).transport(t)
				waited := patient{serveTCP(t, script).transport(t)}
				return []http.RoundTripper{read, waited}
			})
		})
	}
}

// checkPieces cuts an answer in two, each time so many bytes further on, and compares with net/http what transports to such servers read.
func checkPieces(t *testing.T, raw string, step int, pause time.Duration, to func(script func(net.Conn, int64)) []http.RoundTripper) {
	t.Helper()
	theirs := serve(t, once(raw))
	defer theirs.settings.CloseIdleConnections()
	want := see(theirs.settings, http.MethodGet)
	for cut := 0; cut < len(raw); cut += step {
		inTwo := func(conn net.Conn, _ int64) {
			if readRequest(bufio.NewReader(conn)) == nil {
				_, _ = io.WriteString(conn, raw[:cut])
				time.Sleep(pause)
				_, _ = io.WriteString(conn, raw[cut:])
			}
		}
		for _, through := range to(inTwo) {
			if diff := cmp.Diff(want, see(through, http.MethodGet)); diff != "" {
				t.Errorf("cut behind %q: net/http - ours +:\n%s", raw[:cut], diff)
			}
		}
	}
}

// FuzzAnswers compares with net/http. Only of a switch of protocols this transport thinks otherwise.
func FuzzAnswers(f *testing.F) {
	log.SetOutput(io.Discard)
	for _, raw := range rawAnswers {
		if len(raw) < 1000 {
			f.Add(raw, false)
			f.Add(raw, true)
		}
	}
	f.Fuzz(func(t *testing.T, raw string, head bool) {
		if strings.Contains(raw, " 101") {
			return
		}
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		checkLikeNetHTTP(t, method, raw)
	})
}

// A server that switches protocols unasked is not followed.
func TestNoSwitchUnasked(t *testing.T) {
	h := serve(t, answering("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n"))
	if _, err := h.transport(t).RoundTrip(get(t.Context())); !errors.Is(err, errSwitches) {
		t.Errorf("%v", err)
	}
}
