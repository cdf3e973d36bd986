package wallclock_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/wallclock"
)

// The test binary is a process that tells its clocks, once for each line that it reads.
func TestMain(m *testing.M) {
	if os.Getenv("TELL_CLOCKS") == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.Round(0).Sub(began.Round(0)).Milliseconds(), now.Sub(began).Milliseconds())
	}
}

// TestStep: of a program in Go, the wall clock jumps, ahead and back, and the monotonic one
// does not.
func TestStep(t *testing.T) {
	if !wallclock.Possible && os.Getenv("CI") == "true" {
		t.Fatal("clocks can be stepped on Linux on amd64 alone")
	} else if !wallclock.Possible {
		t.Skip("clocks can be stepped on Linux on amd64 alone")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"TELL_CLOCKS=yes"}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	testkit.OK(t, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	answers := bufio.NewReader(out)
	jumped := func() time.Duration {
		t.Helper()
		fmt.Fprintln(in)
		var wall, mono int64
		testkit.Must(fmt.Fscanln(answers, &wall, &mono))(t)
		if mono < 0 || mono > 60_000 {
			t.Errorf("the monotonic clock shows %d ms", mono)
		}
		return (time.Duration(wall-mono) * time.Millisecond).Round(time.Second)
	}
	jumped() // it is up
	for _, x := range []struct{ by, want time.Duration }{
		{time.Hour, time.Hour}, {-time.Hour, 0}, {-time.Hour, -time.Hour}, {time.Second, time.Second - time.Hour},
	} {
		wallclock.Step(t, cmd.Process.Pid, x.by)
		if got := jumped(); got != x.want {
			t.Errorf("after a jump by %v the wall clock is %v off, not %v", x.by, got, x.want)
		}
	}
}
