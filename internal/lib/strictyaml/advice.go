package strictyaml

import (
	"slices"
	"strings"
)

// Nearest is the known word that word was probably meant to be: the same but for case and dashes, the one that is the
// fewest slips away when they are few for its length, or one that begins as it does.
func Nearest(word string, known []string) (string, bool) {
	if len(word) > 64 {
		return "", false
	}
	folded := fold(word)
	best := ""
	least := max(1, len(word)/3) + 1
	for _, k := range known {
		if diff := len(k) - len(word); diff >= least || -diff >= least {
			continue
		}
		if d := slips(folded, fold(k)); d < least {
			best = k
			least = d
		}
	}
	if best != "" {
		return best, true
	}
	return sameStart(folded, known)
}

// sameStart is the known word that shares the most letters with the start of word: four of them, and most of it.
func sameStart(word string, known []string) (string, bool) {
	best := ""
	most := max(4, (2*len(word)+2)/3) - 1
	for _, k := range known {
		if n := commonPrefix(word, fold(k)); n > most {
			best = k
			most = n
		}
	}
	return best, best != ""
}

func fold(word string) string { return strings.ReplaceAll(strings.ToLower(word), "-", "_") }

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// slips counts the letters to insert, drop, replace or swap with their neighbour to get from a to b
// (optimal string alignment).
func slips(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// AdviseWord names the word that was probably meant, or all that may stand there.
func AdviseWord(word string, allowed []string) string {
	if near, ok := Nearest(word, allowed); ok {
		return "did you mean " + Show(near) + "?"
	}
	last := len(allowed) - 1
	return "use " + strings.Join(allowed[:last], ", ") + " or " + allowed[last]
}

// Advise names the known word that was probably meant, or all of them.
func Advise(word string, known []string) string {
	if near, ok := Nearest(word, known); ok {
		return "did you mean " + Show(near) + "?"
	}
	const most = 40
	if len(known) > most {
		return "there is nothing of a similar name"
	}
	if len(known) == 0 {
		return "none is defined"
	}
	return "known are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
