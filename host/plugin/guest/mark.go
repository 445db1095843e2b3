package guest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// testsVersion changes when what is tested does.
	testsVersion = 2

	markFile  = "passed"
	keepMarks = 16 // configurations of one module
)

// mark is the memory that a module has passed its self-test: a line in a file
// beside its compiled code, which is deleted with it.
type mark struct {
	path string // empty: nothing is kept
	line string
}

// newMark is that of a module in the folder of its code.
func newMark(dir string, m *Module) mark {
	limits := fmt.Sprint(testsVersion, m.budgets, m.limits)
	return mark{
		path: filepath.Join(dir, markFile),
		line: fmt.Sprintf("%x", sha256.Sum256(append([]byte(limits), m.testConfig...))),
	}
}

// lines are those that are there.
func (k mark) lines() []string {
	text, err := os.ReadFile(k.path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func (k mark) there() bool {
	return k.path != "" && slices.Contains(k.lines(), k.line)
}

// leave adds the mark, all at once: what a crash leaves behind is the old file.
func (k mark) leave() error {
	if k.path == "" {
		return nil
	}
	lines := append([]string{k.line}, k.lines()...)
	text := strings.Join(lines[:min(len(lines), keepMarks)], "\n")
	return writeWhole(k.path, []byte(text))
}
