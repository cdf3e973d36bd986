package head

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Conversation identifies the conversation to which a body belongs, by hashes; 0 is not known. It only decides where
// a call goes, so no body is refused because of it.
type Conversation struct {
	// Named is the caller's own name for it: prompt_cache_key, or a metadata.user_id that has a session in it, as that
	// of Claude Code.
	Named uint64
	// Begun is its beginning: the texts of messages, or of items of input, up to the first of its user.
	Begun uint64
}

// HashName is the hash by which a caller's own name for a conversation is known, wherever it stands.
func HashName(name []byte) uint64 { return xxhash.Sum64(name) }

// conversing finds the conversation of a body, from its tokens.
type conversing struct {
	body []byte
	out  Conversation

	in    conversingKey // the member of the body that is being read
	key   conversingKey // the member within it
	texts xxhash.Digest // of the texts so far
	text  bool          // the message that is being read has a text,
	user  bool          // and is of the user
}

// conversingKey is a key that says something of a conversation.
type conversingKey uint8

const (
	noConversing conversingKey = iota
	cacheKey
	metadataKey
	messagesKey
	userIDKey
	roleKey
	textKey
)

// The depths of members of metadata and of messages, and of parts of these: [{"content": [{"text": …}]}].
const (
	inMetadata = 2
	inMessage  = 3
	inPart     = 5
)

// reset begins with another body.
func (c *conversing) reset(body []byte) {
	*c = conversing{body: body}
	c.texts.Reset()
}

// token takes in the next token, which stands at a depth. Members of the body have depth 1.
func (c *conversing) token(t jsonscan.Token, depth int) {
	switch {
	case depth == 1:
		c.member(t)
	case c.in == noConversing, c.in == messagesKey && c.out.Begun != 0:
	case t.Kind == jsonscan.Key:
		c.key = c.keyAt(depth, t)
	case t.Kind == jsonscan.String:
		c.value(c.plain(t))
	case t.Kind == jsonscan.ObjectEnd && depth == inMessage:
		c.messageEnds()
	}
}

// member takes in a token of the body's own members.
func (c *conversing) member(t jsonscan.Token) {
	switch {
	case t.Kind == jsonscan.Key:
		c.in = keyInBody(c.plain(t))
		c.key = noConversing
	case t.Kind == jsonscan.String && c.in == cacheKey:
		c.out.Named = HashName(c.plain(t))
	}
}

func keyInBody(key []byte) conversingKey {
	switch string(key) {
	case "prompt_cache_key":
		return cacheKey
	case "metadata":
		return metadataKey
	case "messages", "input":
		return messagesKey
	}
	return noConversing
}

// keyAt is the meaning of a key within a member of the body.
func (c *conversing) keyAt(depth int, t jsonscan.Token) conversingKey {
	key := c.plain(t)
	switch {
	case c.in == metadataKey && depth == inMetadata && string(key) == "user_id":
		return userIDKey
	case c.in != messagesKey:
	case depth == inMessage && string(key) == "role":
		return roleKey
	case depth == inMessage && string(key) == "content", depth == inPart && string(key) == "text":
		return textKey
	}
	return noConversing
}

// value takes in a string within a member of the body.
func (c *conversing) value(text []byte) {
	switch c.key {
	case userIDKey:
		if c.out.Named == 0 && bytes.Contains(text, []byte("session")) {
			c.out.Named = HashName(text)
		}
	case roleKey:
		c.user = string(text) == "user"
	case textKey:
		c.text = true
		c.add(text)
	}
}

// mostHashed is how much is hashed of either end of a text. Long prompts often begin or end alike, but seldom both, at
// the same length.
const mostHashed = 256

// add hashes a text.
func (c *conversing) add(text []byte) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(text)))
	_, _ = c.texts.Write(length[:]) // never fails
	_, _ = c.texts.Write(text[:min(len(text), mostHashed)])
	_, _ = c.texts.Write(text[max(0, len(text)-mostHashed):])
}

// messageEnds takes in the end of a message.
func (c *conversing) messageEnds() {
	if c.user && c.text {
		c.out.Begun = c.texts.Sum64()
	}
	c.user = false
	c.text = false
}

// plain is a string without its quotes, and with its escapes.
func (c *conversing) plain(t jsonscan.Token) []byte { return c.body[t.Start+1 : t.End-1] }
