package keyfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// behindLinks is the file that a path leads to, whether it is there yet or not: so a link stays one, and all who have
// it wait for the same lock.
func behindLinks(path string) (string, error) {
	const most = 40 // as in Linux
	for range most {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		link, err := os.Readlink(path)
		switch {
		case err != nil: // it is no link
			return path, nil
		case filepath.IsAbs(link):
			path = link
		default:
			path = filepath.Join(dir, link)
		}
	}
	return "", fmt.Errorf("more than %d links lead to each other", most)
}
