package guest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoExecutable loads a module in a process that may make no memory executable, as systemd's
// MemoryDenyWriteExecute has it: the error says what to do, and nothing panics.
func TestNoExecutable(t *testing.T) {
	const denied = "TALON_TEST_NO_EXECUTABLE"
	if os.Getenv(denied) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoExecutable$", "-test.v")
		cmd.Env = append(os.Environ(), denied+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skip("the system has no PR_SET_MDWE")
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	_, err := Load(t.Context(), guest{}.assemble(), Options{Name: "guest"})
	if err == nil || !strings.Contains(err.Error(), "set MemoryDenyWriteExecute=no") {
		t.Errorf("%v", err)
	}
}
