package tokens

// OfText is about how many tokens a text of so many bytes has.
func OfText(bytes int64) int64 {
	const bytesPerToken = 4
	return (bytes + bytesPerToken - 1) / bytesPerToken
}
