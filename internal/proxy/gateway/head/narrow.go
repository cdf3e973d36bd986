package head

import (
	"strings"

	"github.com/tidwall/gjson"
)

// IsNarrow reports whether a realtime session names a format of the sound that it hears which is not PCM of 24 kHz, or may be read so:
// all others have fewer bytes. Servers differ in which of two keys they read, and whether they regard case.
func IsNarrow(session gjson.Result) bool {
	return anyAt(session, isOther, "input_audio_format") ||
		anyAt(session, isOther, "audio", "input", "format") ||
		anyAt(session, isOther, "audio", "input", "format", "type") ||
		anyAt(session, func(rate gjson.Result) bool { return rate.Num < 24_000 }, "audio", "input", "format", "rate")
}

// isOther reports whether a format has a name, and not one of PCM.
func isOther(format gjson.Result) bool {
	return format.Type == gjson.String && format.Str != "pcm16" && format.Str != "audio/pcm"
}

// anyAt reports whether something is true of a value at a path of keys.
func anyAt(v gjson.Result, is func(gjson.Result) bool, path ...string) (found bool) {
	if len(path) == 0 {
		return is(v)
	}
	if v.IsObject() {
		v.ForEach(func(key, member gjson.Result) bool {
			found = strings.EqualFold(key.Str, path[0]) && anyAt(member, is, path[1:]...)
			return !found
		})
	}
	return found
}
