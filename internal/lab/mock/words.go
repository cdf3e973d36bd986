package mock

// words are the tokens of answers. None needs escaping in JSON, not even twice, so that a token
// is appended as it is.
var words = [...]string{
	" the", " quick", " brown", " fox", " jumps", " over", " a", " lazy", " dog", " while",
	" seven", " wise", " owls", " watch", " from", " their", " old", " oak", " and", " count",
	" every", " step", " it", " takes", " on", " its", " way", " home", " under", " bright", " stars",
}

// word returns token i of a choice. It is the same in every run; choices differ.
func word(choice, i int) string {
	return words[(i+choice*7)%len(words)]
}

func appendWords(b []byte, choice, n int) []byte {
	for i := range n {
		b = append(b, word(choice, i)...)
	}
	return b
}
