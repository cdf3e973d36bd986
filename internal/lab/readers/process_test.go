package readers

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var (
	installed = flag.Bool("readers", false, "run the readers that run.sh installs")
	duration  = flag.Duration("for", 10*time.Second, "how long each comparison runs")
	seed      = flag.Int64("seed", time.Now().UnixNano(), "of what is made at random")
)

// reading is what one reader made of a text.
type reading[T any] struct {
	Read  T
	Error string // it refused it
}

// process is another program that reads texts.
type process[T any] struct {
	in  *bufio.Writer
	out *bufio.Reader
}

func start[T any](t *testing.T, name string, args ...string) *process[T] {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	in := testkit.Must(cmd.StdinPipe())(t)
	out := testkit.Must(cmd.StdoutPipe())(t)
	testkit.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &process[T]{bufio.NewWriter(in), bufio.NewReader(out)}
}

// send sends texts to be read.
func (p *process[T]) send(texts [][]byte) error {
	for _, text := range texts {
		_ = binary.Write(p.in, binary.BigEndian, uint32(len(text)))
		_, _ = p.in.Write(text)
	}
	return p.in.Flush()
}

// receive receives what its readers, by their names, made of one text.
func (p *process[T]) receive() (map[string]reading[T], error) {
	var size uint32
	if err := binary.Read(p.out, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(p.out, text); err != nil {
		return nil, err
	}
	var found map[string]reading[T]
	err := json.Unmarshal(text, &found)
	return found, err
}

// readAll has every process read all texts, and returns what each reader made of each.
func readAll[T any](t *testing.T, processes []*process[T], texts [][]byte) []map[string]reading[T] {
	t.Helper()
	sent := make(chan error, len(processes))
	for _, p := range processes {
		go func() { sent <- p.send(texts) }()
	}
	found := make([]map[string]reading[T], len(texts))
	for i := range texts {
		found[i] = map[string]reading[T]{}
		for _, p := range processes {
			more, err := p.receive()
			if err != nil {
				t.Fatalf("a reader broke at %q: %v", texts[i], err)
			}
			for name, r := range more {
				found[i][name] = r
			}
		}
	}
	for range processes {
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// node is the Node.js that run.sh has found.
func node() string {
	if path := os.Getenv("NODE"); path != "" {
		return path
	}
	return "node"
}

// trial is a body that was accepted.
type trial struct {
	path string
	made []byte // as the client sent it
	sent []byte // as the upstream gets it, for the readers
}

// texts are what the readers get.
func texts(trials []trial) [][]byte {
	list := make([][]byte, len(trials))
	for i := range trials {
		list[i] = trials[i].sent
	}
	return list
}

// tally is what a comparison has done.
type tally struct{ sent, accepted, readings, refused, differences int }

// differs notes a difference. What was made belongs into the corpus.
func (n *tally) differs(t *testing.T, tr trial, name, problem string) {
	t.Helper()
	n.differences++
	t.Errorf("%s: %s reads %s\nmade: %q\nsent: %q", tr.path, name, problem, tr.made, tr.sent)
}

func (n *tally) report(t *testing.T) {
	t.Logf("seed %d: %d made, %d accepted, %d readings, %d of them refusals, %d differences", *seed, n.sent, n.accepted, n.readings, n.refused, n.differences)
}
