package plugin

import (
	"fmt"
	"os"
	"testing"
)

// machineCode is a folder of compiled modules that the tests of one run share:
// compiling a Go guest takes seconds, under the race detector many.
var machineCode string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "talon-plugin-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	machineCode = dir
	return m.Run()
}
