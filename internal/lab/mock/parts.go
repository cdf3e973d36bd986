package mock

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The tokens of parts of a prompt that are not text.
const (
	// imageTokens are those of a picture of 1024 by 1024 pixels in OpenAI's high detail.
	imageTokens = 765
	// bytesPerToken is the size of one token of compressed sound: ten a second at 64 kbit/s.
	bytesPerToken = 800
	// farTokens are those of content outside the body: a stored prompt, a document by its address,
	// and the results of a provider's tool.
	farTokens = 1000
)

// partTokens counts a content part by its text in the body.
func partTokens(part gjson.Result) int64 {
	switch part.Get("type").Str {
	case "image_url", "input_image", "image":
		return imageTokens
	case "input_audio":
		return decoded(part.Get("input_audio.data").Str) / bytesPerToken
	case "file", "input_file", "document":
		return documentTokens(part)
	case "tool_result":
		return contentTokens(part.Get("content"))
	}
	return textTokens(part.Get("text"))
}

// documentTokens counts a document in base64 by the text in it, and one by its address.
func documentTokens(part gjson.Result) (n int64) {
	for _, key := range []string{"file.file_data", "file_data", "source.data"} {
		n += (decoded(part.Get(key).Str) + 3) / 4
	}
	for _, key := range []string{"file_url", "source.url"} {
		if part.Get(key).Str != "" {
			n += farTokens
		}
	}
	return n
}

// decoded is the number of bytes that a text in base64 encodes.
func decoded(text string) int64 { return int64(len(text)) / 4 * 3 }

// farTokens counts content to which the body refers.
func (s *Server) farTokens(c *call, body string) (n int64) {
	if c.stored.IsObject() {
		n += farTokens
	}
	c.tools.ForEach(func(_, tool gjson.Result) bool {
		if kind := tool.Get("type").Str; kind != "" && kind != "function" && kind != "custom" {
			n += farTokens
		}
		return true
	})
	if c.previous.Type != gjson.String && !strings.Contains(body, "file_id") {
		return n
	}
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	if t := s.account.objects[c.previous.Str]; t != nil {
		n += t.took
	}
	for _, list := range []gjson.Result{c.messages, c.input} {
		list.ForEach(func(_, item gjson.Result) bool {
			item.Get("content").ForEach(func(_, part gjson.Result) bool {
				n += s.fileTokensLocked(part)
				return true
			})
			return list.IsArray()
		})
	}
	return n
}

// fileTokensLocked counts a document that a part names by its id.
func (s *Server) fileTokensLocked(part gjson.Result) int64 {
	if part.Get("type").Str == "input_image" {
		return 0 // because a picture counts the same whatever its file
	}
	for _, key := range []string{"file.file_id", "file_id", "source.file_id"} {
		if t := s.account.objects[part.Get(key).Str]; t != nil {
			return int64(len(t.content)+3) / 4
		}
	}
	return 0
}
