package tenants

// nearest is the known word that is the fewest slips away from word, when they are few for its length.
func nearest(word string, known []string) (string, bool) {
	best, least := "", max(1, len(word)/3)+1
	if len(word) > 64 {
		return "", false
	}
	for _, k := range known {
		if diff := len(k) - len(word); diff >= least || -diff >= least {
			continue
		}
		if d := slips(word, k); d < least {
			best, least = k, d
		}
	}
	return best, best != ""
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
