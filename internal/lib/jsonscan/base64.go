package jsonscan

import "bytes"

// IsBase64 reports whether a text, as it stands in a string, is one value in base64: not words, which have gaps. Some
// encoders escape slashes.
func IsBase64(text []byte) bool {
	i := 0
	if hasVectors {
		i = base64Blocks(text)
	}
	for _, b := range text[i:] {
		if !base64Digit[b] {
			return false
		}
	}
	return len(text) > 0 && escapesSlashes(text)
}

// base64Digit are the bytes of base64, and the backslash.
var base64Digit = func() (is [256]bool) {
	for _, b := range `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\` {
		is[b] = true
	}
	return is
}()

// escapesSlashes reports whether a slash follows each backslash.
func escapesSlashes(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return true
		}
		text = text[i+1:]
		if len(text) == 0 || text[0] != '/' {
			return false
		}
	}
}
