package head

import (
	"bytes"
	"strings"
)

// MayRefer reports whether a body of chat or the like may refer to an object. To do so it has to
// contain "e_id", "r_id", "h_id", "t_id" or "ill_id", a container, audio or cached content, or escapes.
// Most bodies do not, and are not walked.
func MayRefer(body []byte) bool {
	if bytes.Contains(body, []byte(`\u`)) || mayName(body) {
		return true
	}
	for at := 0; ; at++ {
		i := bytes.IndexByte(body[at:], '_')
		if i < 0 {
			return false
		}
		at += i
		if at > 0 && at+2 < len(body) && body[at+1]|0x20 == 'i' && body[at+2]|0x20 == 'd' && mayOwnID(body[:at]) {
			return true
		}
	}
}

// mayOwnID reports whether a name that goes on with _id may be one of the referring keys.
func mayOwnID(name []byte) bool {
	switch name[len(name)-1] | 0x20 {
	case 'e', 'r', 'h', 't':
		return true
	case 'l':
		return endsIn(name, "ill") // and not call_id, which is everywhere
	}
	return false
}

// mayName reports whether a string ends in the name of a container, of audio or of cached content. It
// looks where strings end, since that is rarer than any letter.
func mayName(body []byte) bool {
	for at := 0; ; at++ {
		i := bytes.IndexByte(body[at:], '"')
		if i < 0 {
			return false
		}
		at += i
		if at == 0 {
			continue
		}
		switch body[at-1] | 0x20 {
		case 'r':
			if endsIn(body[:at], "container") {
				return true
			}
		case 'o':
			if endsIn(body[:at], "audio") {
				return true
			}
		case 't':
			if endsIn(body[:at], "cached_content") {
				return true
			}
		}
	}
}

// endsIn reports whether a text ends in a name, in whatever case.
func endsIn(text []byte, name string) bool {
	return len(text) >= len(name) && strings.EqualFold(string(text[len(text)-len(name):]), name)
}
