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

	"talon/cmd/internal/gitremote"
)

// startsFile is next to the program, and has a line for each of its starts.
const startsFile = "starts"

// waits is the line of a process that waits for commands.
const waits = "waits for commands"

// countStart adds a line for this process.
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
	starts, kinds := 0, make(map[string]int)
	for line := range strings.Lines(string(text)) {
		kind := strings.TrimSpace(line)
		if words := strings.Fields(kind); kind != waits {
			kind = strings.Join(words[:min(len(words), 2)], " ")
			starts++
		}
		if strings.HasPrefix(kind, gitremote.Name) {
			kind = gitremote.Name // without the name of the remote
		}
		kinds[kind]++
	}
	if testing.Verbose() {
		fmt.Printf("the program was started %d times: %v\n", starts, kinds)
	}
	// Each test that runs at the same time may have several servers, and some are killed.
	if limit := 40 + 8*runtime.GOMAXPROCS(0); starts > maxStarts || kinds[waits] > limit {
		return fmt.Errorf("the program was started %d times, want at most %d, and %d processes waited for commands, want at most %d: %v",
			starts, maxStarts, kinds[waits], limit, kinds)
	}
	return nil
}
