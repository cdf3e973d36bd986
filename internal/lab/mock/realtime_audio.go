package mock

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"
)

// soundBytes is the length of one token of audio in base64: a tenth of a second of 24,000 two-byte
// samples a second.
const soundBytes = 6400

// audioInput is the input audio of a session. With voice activity detection, which is on until a
// session turns it off, a turn of the user's begins with a chunk that is not silent and ends with
// the next one that is; the server then commits the audio and responds without being asked.
type audioInput struct {
	off      bool // no voice activity detection
	quiet    bool // turns are detected, but responses only created on request
	speaking bool
	heard    int64 // bytes of base64 that are not committed
}

// configure reads the turn detection of a session, in the places of beta and of current clients.
func (e *audioInput) configure(session gjson.Result) {
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
func (e *audioInput) session() any {
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

// append handles a chunk of audio.
func (t *session) append(ctx context.Context, audio string) {
	t.audio.heard += int64(len(audio))
	if t.audio.off {
		return
	}
	if !silent(audio) {
		if !t.audio.speaking {
			t.audio.speaking = true
			t.say(ctx, map[string]any{"type": "input_audio_buffer.speech_started"})
		}
		return
	}
	if !t.audio.speaking {
		return
	}
	t.audio.speaking = false
	t.say(ctx, map[string]any{"type": "input_audio_buffer.speech_stopped"})
	t.commit(ctx)
	if !t.audio.quiet {
		t.respond(ctx, gjson.Result{})
	}
}

// commit adds the audio heard to the conversation.
func (t *session) commit(ctx context.Context) {
	if t.audio.heard == 0 {
		t.refuse(ctx, "input_audio_buffer_commit_empty", "Error committing input audio buffer: the buffer is empty.")
		return
	}
	t.prompt += (t.audio.heard + soundBytes - 1) / soundBytes
	t.audio.heard = 0
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
