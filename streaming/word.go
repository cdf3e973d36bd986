package streaming

// word keeps a short string; of a longer one, only its length.
type word struct {
	text [48]byte
	n    int
}

func (w *word) add(part []byte) {
	if w.n < len(w.text) {
		copy(w.text[w.n:], part)
	}
	w.n += len(part)
}

// bytes returns the string, or nothing if it is too long.
func (w *word) bytes() []byte {
	if w.n > len(w.text) {
		return nil
	}
	return w.text[:w.n]
}

// name is a key that counts.
type name uint8

const (
	noName   name = iota
	wrapName      // of an object in which the usage may stand
	usageName
	otherUsageName // of servers that have no usage by that name
	typeName
	objectName
	tierName
	envelopeName
	answerName
	choicesName
	errorName
	complaintName
)

// isWord reports whether the value is a word to be kept.
func (n name) isWord() bool { return n == typeName || n == objectName || n == tierName }
