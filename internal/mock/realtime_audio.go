package mock

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"
)

// soundBytes is the length of one token of audio in base64: a tenth of a second of 24,000 two-byte
// samples a second.
const soundBytes = 6400

// ear is the input audio of a session. With voice activity detection, which is on until a session
// turns it off, a turn of the user's begins with a chunk that is not silent and ends with the next
// one that is; the server then commits the audio and responds, although nobody has asked for it.
type ear struct {
	off      bool // no voice activity detection
	quiet    bool // it detects turns, but leaves it to the client to ask for responses
	speaking bool
	heard    int64 // bytes of base64 that are not committed
}

// configure reads the turn detection of a session, where beta and current clients put it.
func (e *ear) configure(session gjson.Result) {
	for _, path := range []string{"turn_detection", "audio.input.turn_detection"} {
		v := session.Get(path)
		if !v.Exists() {
			continue
		}
		create := v.Get("create_response")
		e.off = v.Type == gjson.Null
		e.quiet = create.Exists() && !create.Bool()
	}
}

// session shows the turn detection as sessions do.
func (e *ear) session() any {
	if e.off {
		return nil
	}
	return map[string]any{
		"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500,
		"create_response": !e.quiet, "interrupt_response": true,
	}
}

// silent reports whether a chunk of audio has no sound: all of its samples are zero.
func silent(audio string) bool { return strings.Trim(audio, "A=") == "" }

// append hears a chunk of audio.
func (t *talk) append(ctx context.Context, audio string) {
	t.ear.heard += int64(len(audio))
	if t.ear.off {
		return
	}
	if !silent(audio) {
		if !t.ear.speaking {
			t.ear.speaking = true
			t.say(ctx, map[string]any{"type": "input_audio_buffer.speech_started"})
		}
		return
	}
	if !t.ear.speaking {
		return
	}
	t.ear.speaking = false
	t.say(ctx, map[string]any{"type": "input_audio_buffer.speech_stopped"})
	t.commit(ctx)
	if !t.ear.quiet {
		t.respond(ctx, gjson.Result{})
	}
}

// commit makes the audio that was heard a part of the conversation.
func (t *talk) commit(ctx context.Context) {
	if t.ear.heard == 0 {
		t.fail(ctx, "input_audio_buffer_commit_empty", "Error committing input audio buffer: the buffer is empty.")
		return
	}
	t.prompt += (t.ear.heard + soundBytes - 1) / soundBytes
	t.ear.heard = 0
	t.say(ctx, map[string]any{"type": "input_audio_buffer.committed"})
	t.say(ctx, map[string]any{"type": "conversation.item.created", "item": map[string]any{"type": "message", "role": "user"}})
}

// lengthIn reads the bound on the length of a response, under the names that clients use; 0 is none.
func lengthIn(v gjson.Result) int64 {
	for _, name := range []string{"max_output_tokens", "max_response_output_tokens"} {
		if n := v.Get(name); n.Type == gjson.Number {
			return min(max(0, n.Int()), maxOutput)
		}
	}
	return 0
}
