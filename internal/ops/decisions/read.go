package decisions

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// maxLine bounds a line: the policy of very many tenants.
const maxLine = 1 << 30

// Files are the files of a log, the oldest first.
func Files(path string) []string {
	list := []string{path}
	for i := 1; ; i++ {
		older := fmt.Sprint(path, ".", i)
		if _, err := os.Stat(older); err != nil { // Logs reports other errors for the newest file
			return list
		}
		list = append([]string{older}, list...)
	}
}

// Logs are the files of several logs. It is an error if a file belongs to two.
func Logs(paths []string) ([][]string, error) {
	var logs [][]string
	seen := map[string]os.FileInfo{}
	for _, path := range paths {
		files := Files(path)
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return nil, err
			}
			for other, was := range seen {
				if os.SameFile(info, was) {
					return nil, fmt.Errorf("%s and %s are one file; name each log once, as decision_log.path does", other, file)
				}
			}
			seen[file] = info
		}
		logs = append(logs, files)
	}
	return logs, nil
}

// Read yields the lines of files. For a line that cannot be read, because a process was killed or
// a disk was full, it yields a Lost line. An error ends it.
func Read(paths []string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for _, path := range paths {
			if err := readFile(path, yield); err != nil {
				if !errors.Is(err, errEnough) {
					yield(Line{}, err)
				}
				return
			}
		}
	}
}

var errEnough = errors.New("enough")

func readFile(path string, yield func(Line, error) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(io.Reader(file))
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l Line
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Kind == "" {
			l = Line{Kind: Lost, Lines: 1}
		}
		if l.Start != nil && l.Start.Version != Version {
			return fmt.Errorf("%s: it is of version %d of the format, and this llmgov reads %d", path, l.Start.Version, Version)
		}
		if !yield(l, nil) {
			return errEnough
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
