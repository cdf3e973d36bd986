package mock

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// media are the routes whose answers are pictures, speech or transcripts. No field of a request
// bounds their tokens: each of the n answers has OutputTokens, or the number in the hook. Forms
// have the hook in a field mock.
var media = map[string]func(*mediaCall){
	"/images/generations":   (*mediaCall).pictures,
	"/images/edits":         (*mediaCall).pictures,
	"/images/variations":    (*mediaCall).pictures,
	"/audio/speech":         (*mediaCall).speech,
	"/audio/transcriptions": (*mediaCall).transcript,
	"/audio/translations":   (*mediaCall).transcript,
}

// mediaCall is one call to such a route.
type mediaCall struct {
	s      *Server
	w      http.ResponseWriter
	path   string
	fields map[string]string // texts, and numbers as texts
	files  []int64           // their lengths
	tick   ticket
}

// serveMedia answers a call to such a route. It reports whether it was one.
func (s *Server) serveMedia(w http.ResponseWriter, r *http.Request, path string) bool {
	answer := media[path]
	if answer == nil || r.Method != http.MethodPost {
		return false
	}
	c := &mediaCall{s: s, w: w, path: path, fields: map[string]string{}}
	how := failed
	s.books.arrive()
	defer func() { s.books.end(&c.tick, how) }()
	if e := c.read(r); e != nil {
		s.writePlain(w, e.status, e.append(nil))
		return true
	}
	output := c.output()
	c.tick.prompt = c.prompt()
	c.tick.bound = output
	if v := s.books.admit(&c.tick); !v.ok {
		how = refused
		e := v.err(c.fields["model"])
		s.writePlain(w, e.status, e.append(nil))
		return true
	}
	how = cancelled
	if !s.books.acquire(r.Context(), &c.tick) {
		return true
	}
	p := pace{start: time.Now(), first: s.cfg.FirstToken}
	defer p.stop()
	if !p.wait(r.Context(), 0) {
		return true
	}
	s.books.produce(&c.tick, output)
	how = completed
	s.books.end(&c.tick, how) // before the last byte, as of all calls
	answer(c)
	return true
}

// read takes the fields and files from a JSON body or a form.
func (c *mediaCall) read(r *http.Request) *apiError {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		text, err := readLimited(r.Body)
		if err != nil || !gjson.ValidBytes(text) {
			return badRequest("", "We could not parse the JSON body of your request.")
		}
		gjson.ParseBytes(text).ForEach(func(key, v gjson.Result) bool {
			c.fields[key.Str] = v.String()
			return true
		})
		return nil
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return badRequest("", "We could not parse your form.")
	}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return badRequest("", "We could not parse your form.")
		}
		text, err := readLimited(part)
		if err != nil {
			return badRequest("", "We could not parse your form.")
		}
		if part.FileName() != "" {
			c.files = append(c.files, int64(len(text)))
		} else {
			c.fields[part.FormName()] = string(text)
		}
	}
}

// prompt counts the texts, and the files as pictures or sound, depending on the route.
func (c *mediaCall) prompt() (n int64) {
	for _, key := range []string{"prompt", "input", "instructions"} {
		n += int64(len(c.fields[key])+3) / 4
	}
	for _, length := range c.files {
		if strings.HasPrefix(c.path, "/images/") {
			n += imageTokens
		} else {
			n += length / bytesPerToken
		}
	}
	return n
}

// output is the number of tokens of the answers.
func (c *mediaCall) output() int64 {
	each := int64(c.s.cfg.OutputTokens)
	if hook := gjson.Get(c.fields["mock"], "output_tokens"); hook.Type == gjson.Number {
		each = min(max(0, hook.Int()), maxOutput)
	}
	n := max(1, gjson.Parse(c.fields["n"]).Int())
	return each * min(n, maxOutput)
}

func (c *mediaCall) usage() map[string]any {
	return map[string]any{
		"type": "tokens", "input_tokens": c.tick.prompt, "output_tokens": c.tick.produced, "total_tokens": c.tick.prompt + c.tick.produced,
	}
}

func (c *mediaCall) say(answer map[string]any) {
	text, _ := json.Marshal(answer) // strings, numbers, and maps and lists of these
	c.s.writePlain(c.w, 200, text)
}

func (c *mediaCall) pictures() {
	c.say(map[string]any{"created": time.Now().Unix(), "data": []any{map[string]any{"b64_json": ""}}, "usage": c.usage()})
}

func (c *mediaCall) transcript() {
	c.say(map[string]any{"text": "word", "usage": c.usage()})
}

// speech reports its usage only in a stream.
func (c *mediaCall) speech() {
	if c.fields["stream_format"] != "sse" {
		c.w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = c.w.Write([]byte("sound"))
		return
	}
	c.w.Header().Set("Content-Type", "text/event-stream")
	done, _ := json.Marshal(map[string]any{"type": "speech.audio.done", "usage": c.usage()})
	_, _ = fmt.Fprintf(c.w, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"QUFB\"}\n\ndata: %s\n\n", done)
}
