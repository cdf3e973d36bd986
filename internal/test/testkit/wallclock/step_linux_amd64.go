package wallclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Possible reports whether clocks can be stepped here at all.
const Possible = true

// The replacements of functions of the vDSO. The four bytes at hole become the distance from their
// end to the offset.
var functions = []struct {
	name string
	code []byte
	hole int
}{
	{"__vdso_clock_gettime", []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x75, 0x0e, // jnz end
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x0a, // jnz end
		0x48, 0x8b, 0x15, 0, 0, 0, 0, // mov rdx, [rip + offset]
		0x48, 0x01, 0x16, // add [rsi], rdx
		0xc3, // end: ret
	}, 18},
	{"__vdso_gettimeofday", []byte{
		0xb8, 0x60, 0x00, 0x00, 0x00, // mov eax, SYS_gettimeofday
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x0a, // jz end
		0x48, 0x8b, 0x15, 0, 0, 0, 0, // mov rdx, [rip + offset]
		0x48, 0x01, 0x17, // add [rdi], rdx
		0xc3, // end: ret
	}, 15},
	{"__vdso_time", []byte{
		0xb8, 0xc9, 0x00, 0x00, 0x00, // mov eax, SYS_time
		0x0f, 0x05, // syscall
		0x48, 0x03, 0x05, 0, 0, 0, 0, // add rax, [rip + offset]
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x03, // jz end
		0x48, 0x89, 0x07, // mov [rdi], rax
		0xc3, // end: ret
	}, 10},
}

// offsetAt is the place of the offset in the first of the functions, after its replacement.
const offsetAt = 64

// vdso is the vDSO of one process.
type vdso struct {
	mem   *os.File
	start int64
	pages []byte
	at    map[string]uint64 // of functions, in the pages
}

// step adds seconds to the wall clock of a process.
func step(pid int, seconds int64) error {
	v, err := open(pid)
	if err != nil {
		return err
	}
	defer v.mem.Close()
	if !v.taken() {
		if err := v.take(pid); err != nil {
			return err
		}
	}
	at := v.at[functions[0].name] + offsetAt
	offset := binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(v.pages[at:])+uint64(seconds))
	_, err = v.mem.WriteAt(offset, v.start+int64(at))
	return err
}

// open reads the vDSO of a process.
func open(pid int) (*vdso, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	v := &vdso{at: map[string]uint64{}}
	var end int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x", &v.start, &end); err != nil {
				return nil, err
			}
		}
	}
	if end == 0 {
		return nil, errors.New("it has no vDSO; has it just been started?")
	}
	v.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	v.pages = make([]byte, end-v.start)
	if _, err := v.mem.ReadAt(v.pages, v.start); err != nil {
		return nil, errors.Join(err, v.mem.Close())
	}
	if err := v.find(); err != nil {
		return nil, errors.Join(err, v.mem.Close())
	}
	return v, nil
}

// find finds the functions.
func (v *vdso) find() error {
	file, err := elf.NewFile(bytes.NewReader(v.pages))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		v.at[s.Name] = s.Value
	}
	for _, f := range functions {
		if _, there := v.at[f.name]; !there {
			return fmt.Errorf("the vDSO has no %s", f.name)
		}
	}
	return nil
}

// taken reports whether the functions have been replaced.
func (v *vdso) taken() bool {
	f := functions[0]
	return bytes.HasPrefix(v.pages[v.at[f.name]:], f.code[:f.hole])
}

// take replaces the functions while the process is stopped, because nothing may run in a function
// that is half replaced.
func (v *vdso) take(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	if err := stands(pid); err != nil {
		return err
	}
	offset := v.at[functions[0].name] + offsetAt
	clear(v.pages[offset : offset+8])
	for _, f := range functions {
		at := v.at[f.name]
		code := bytes.Clone(f.code)
		binary.LittleEndian.PutUint32(code[f.hole:], uint32(offset-at-uint64(f.hole)-4))
		copy(v.pages[at:], code)
	}
	_, err := v.mem.WriteAt(v.pages, v.start)
	return err
}

// stands waits until all threads of a process have stopped.
func stands(pid int) error {
	for range 1000 {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			return errors.Join(err, os.ErrProcessDone)
		}
		if !slices.ContainsFunc(threads, runs) {
			return nil
		}
		time.Sleep(time.Millisecond) // of a poll with a deadline
	}
	return errors.New("it does not stop")
}

// runs reports whether a thread has not stopped, by its file in /proc, where its state follows its
// name in brackets.
func runs(stat string) bool {
	line, err := os.ReadFile(stat)
	_, rest, ok := bytes.Cut(line, []byte(") "))
	return err != nil || !ok || rest[0] != 'T'
}
