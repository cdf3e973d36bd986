package fleet

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// soakFigure is one thing that must not grow.
type soakFigure struct {
	name string
	unit float64 // of which it is shown
}

var soakFigureList = []soakFigure{
	{"gateway: memory in use after garbage collection, MB", 1e6},
	{"gateway: resident memory without files, MB", 1e3},
	{"gateway: goroutines", 1},
	{"gateway: file descriptors", 1},
	{"gateway: lines of /metrics", 1},
	{"gateway: journal and budgets in state_dir, kB", 1e3},
	{"Redis: size of all keys, kB", 1e3},
	{"Redis: memory in all, kB", 1e3},
	{"Redis: keys", 1},
}

// sampledFigures are those of one moment, in the order of soakFigureList.
type sampledFigures struct {
	at     time.Duration
	values []float64
}

// soakFigures samples the figures of the gateway that is never restarted, and of the store.
type soakFigures struct {
	*scene
	began   time.Time
	samples []sampledFigures
	quit    chan struct{}
	done    sync.WaitGroup
}

func newSoakFigures(c *scene) *soakFigures {
	f := &soakFigures{scene: c, began: time.Now(), quit: make(chan struct{})}
	f.done.Go(f.run)
	return f
}

func (f *soakFigures) run() {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		}
		if values := f.now(); values != nil {
			f.samples = append(f.samples, sampledFigures{time.Since(f.began), values})
		}
	}
}

func (f *soakFigures) stop() {
	close(f.quit)
	f.done.Wait()
}

// now is nil while the store is away.
func (f *soakFigures) now() []float64 {
	gateway := f.gateways[0].proc.Load()
	metrics := figuresIn(strings.NewReader(gateway.Scrape(f.t)), " ")
	info, err := f.askRedis("INFO")
	if err != nil {
		return nil
	}
	keySizes, err := f.askRedis("EVAL", sizeOfKeys, "0")
	if err != nil {
		return nil
	}
	size, err := strconv.ParseFloat(strings.TrimSpace(keySizes), 64)
	if err != nil {
		f.t.Error(err)
	}
	redis := figuresIn(strings.NewReader(info), ":")
	keys := 0
	_, _ = fmt.Sscanf(redis.text["db0"], "keys=%d", &keys)
	return []float64{
		metrics.number("go_memstats_next_gc_bytes") / 2, // because GOGC is 100
		f.resident(gateway),
		metrics.number("go_goroutines"),
		metrics.number("process_open_fds"),
		float64(metrics.lines),
		sizeOf(filepath.Join(gateway.Dir, "state")),
		size,
		redis.number("used_memory"),
		float64(keys),
	}
}

// resident is the resident memory of a process in kB, but for files that it has mapped: the owners of objects grow.
func (f *soakFigures) resident(p *processtest.Process) float64 {
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		f.t.Error(err)
		return math.NaN()
	}
	defer status.Close()
	kilobytes, _, _ := strings.Cut(figuresIn(status, ":").text["RssAnon"], " ")
	n, err := strconv.ParseFloat(kilobytes, 64)
	if err != nil {
		f.t.Errorf("the resident memory is known on Linux only: %v", err)
	}
	return n
}

// sizeOfKeys adds up what Redis says of each key, but for what was spent: this has to grow with each tenant that spends something. All
// members of a key are looked at: an estimate by some is of others after each restart of Redis.
const sizeOfKeys = `local sum = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
	if not string.find(key, '^llmgov:spend:') then
		sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
	end
end
return sum`

// askRedis runs a command. An error means that the store is away.
func (f *soakFigures) askRedis(args ...string) (string, error) {
	_, port, _ := strings.Cut(f.store.Addr(), ":")
	out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).Output()
	return string(out), err
}

// figures are the lines of a text by the names that they begin with.
type figures struct {
	text  map[string]string
	lines int
}

func figuresIn(r io.Reader, separator string) figures {
	f := figures{text: map[string]string{}}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f.lines++
		if name, value, ok := strings.Cut(lines.Text(), separator); ok {
			f.text[name] = strings.TrimSpace(value)
		}
	}
	return f
}

func (f figures) number(name string) float64 {
	x, err := strconv.ParseFloat(f.text[name], 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// sizeOf is the size of a folder's files, but for the owners of objects and the books of what was spent. These have to grow, with each
// response that is stored, because a provider keeps it for a month, and with each tenant. A file that is removed meanwhile has no size.
func sizeOf(dir string) (size float64) {
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		if info, err := file.Info(); err == nil && file.Name() != "objects.db" && file.Name() != "books.db" {
			size += float64(info.Size())
		}
	}
	return size
}

const (
	// mostGrowth is the part of its mean by which a figure may grow in an hour, beyond sureAt times the error of its slope:
	// so many figures are judged that of some a line through noise rises by twice its error.
	mostGrowth = 0.05
	sureAt     = 3
	// leastSoak is the length from which on that is judged, because caches fill at first.
	leastSoak = 25 * time.Minute
)

// report writes the table, and fails if anything grows. The first third is left out, in which caches fill.
func (f *soakFigures) report(idle, rest []float64) {
	settled := f.samples[len(f.samples)/3:]
	var b strings.Builder
	b.WriteString("| | idle before | under load: mean | largest | grows by, per hour | idle after |\n|---|---|---|---|---|---|\n")
	for i, figure := range soakFigureList {
		var points []point
		most := 0.0
		sum := 0.0
		for _, s := range settled {
			y := s.values[i] / figure.unit
			points = append(points, point{s.at.Hours(), y})
			most = max(most, y)
			sum += y
		}
		mean := sum / float64(len(points))
		slope, off := fit(blocks(points, 40))
		fmt.Fprintf(&b, "| %s | %.4g | %.4g | %.4g | %.2g ± %.2g | %.4g |\n", figure.name, idle[i]/figure.unit, mean, most, slope, off, rest[i]/figure.unit)
		if *soakFor >= leastSoak && grows(slope, off, mean) {
			f.t.Errorf("%s: grows by %.3g ± %.2g per hour, of %.3g", figure.name, slope, off, mean)
		}
	}
	f.t.Logf("%d samples in %v\n%s", len(f.samples), f.samples[len(f.samples)-1].at.Round(time.Second), b.String())
}

// grows reports whether it is sure that a figure grows by too much, or that there is no figure.
func grows(slope, off, mean float64) bool { return !(slope-sureAt*off <= mostGrowth*mean) }

type point struct{ x, y float64 }

// blocks are the means of n stretches of points: neighbours are alike, and would make the error of a fit look too small.
func blocks(points []point, n int) []point {
	var list []point
	for i := range n {
		part := points[i*len(points)/n : (i+1)*len(points)/n]
		if len(part) == 0 {
			continue
		}
		mean := point{}
		for _, p := range part {
			mean.x += p.x / float64(len(part))
			mean.y += p.y / float64(len(part))
		}
		list = append(list, mean)
	}
	return list
}

// fit is the slope of the line through points by least squares, and its standard error.
func fit(points []point) (slope, off float64) {
	n := float64(len(points))
	var x, y float64
	for _, p := range points {
		x += p.x / n
		y += p.y / n
	}
	var xx, xy float64
	for _, p := range points {
		xx += (p.x - x) * (p.x - x)
		xy += (p.x - x) * (p.y - y)
	}
	slope = xy / xx
	rest := 0.0
	for _, p := range points {
		d := p.y - y - slope*(p.x-x)
		rest += d * d
	}
	return slope, math.Sqrt(rest / (n - 2) / xx)
}

// TestGrows: of a thousand half hours in which nothing grows few have one of nine figures that seems to. What grows by half in an hour is seen.
func TestGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	grown := func(perHour float64) bool {
		var points []point
		for i := range 40 {
			hours := float64(i) / 120
			points = append(points, point{hours, 20 + perHour*hours + rng.NormFloat64()})
		}
		slope, off := fit(points)
		return grows(slope, off, 20)
	}
	alarms := 0
	missed := 0
	for range 1000 {
		alarm := false
		for range 9 {
			alarm = grown(0) || alarm
		}
		if alarm {
			alarms++
		}
		if !grown(10) {
			missed++
		}
	}
	if alarms > 20 || missed > 20 || !grows(math.NaN(), 1, 20) {
		t.Errorf("of 1000 runs %d are refused though nothing grows, and %d are not though something does", alarms, missed)
	}
}
