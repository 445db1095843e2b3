package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a file that is to be run. No process begins meanwhile, which would
// have it open for writing until it runs a program of its own: to run the file would fail
// with ETXTBSY.
func WriteProgram(tb testing.TB, path, text string) {
	tb.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		tb.Fatal(err)
	}
}
