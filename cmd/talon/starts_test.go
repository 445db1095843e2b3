package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// startsFile is next to the program, and has a line for each of its starts.
const startsFile = "starts"

// waits is the line of a process that waits for commands.
const waits = "waits for commands"

func countStart() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), startsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	what := waits
	if os.Getenv(standBy) == "" {
		what = strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:min(len(os.Args), 3)]...), " ")
	}
	fmt.Fprintln(f, what)
}

// maxStarts bounds how often all tests start the whole program, processes that wait for commands apart. Most
// are compilations of a module, which have limits of their own (guest.CompileJob).
const maxStarts = 110

// checkStarts reports whether all tests together start the program as seldom as they should.
func checkStarts() error {
	path, err := exec.LookPath(realTalon)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), startsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	starts, waiting := 0, 0
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == waits {
			waiting++
		} else {
			starts++
		}
	}
	if testing.Verbose() {
		fmt.Printf("the program was started %d times, and %d processes waited for commands\n", starts, waiting)
	}
	// Each test that runs at the same time may have several servers, and some are killed.
	if limit := 40 + 8*runtime.GOMAXPROCS(0); starts > maxStarts || waiting > limit {
		return fmt.Errorf("the program was started %d times, want at most %d, and %d processes waited for commands, want at most %d:\n%s",
			starts, maxStarts, waiting, limit, text)
	}
	return nil
}
