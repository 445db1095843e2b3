//go:build linux

package gitfetch

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestDiskFull fetches onto a disk that is too small. It is no server's fault, nothing is
// left of it, and with room again the same request succeeds.
func TestDiskFull(t *testing.T) {
	const inside = "TALON_TEST_SMALL_DISK"
	if os.Getenv(inside) == "" {
		// Only root may mount a disk. In a namespace of its own everybody is root, if the
		// machine allows that.
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		switch text := string(out); {
		case text == "" && err != nil:
			t.Skipf("this machine gives nobody a namespace: %v", err)
		case strings.Contains(text, "--- SKIP"):
			t.Skipf("this machine mounts no disk:\n%s", text)
		case err != nil || !strings.Contains(text, "--- PASS"):
			t.Errorf("%v\n%s", err, text)
		}
		return
	}

	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir, _ := work(t, "one")
	noise := make([]byte, 4<<20)
	_, _ = rand.Read(noise)
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	id := testkit.Commit(t, dir, "two")
	url := newRemote(t).add(t, "x", dir)
	t.Run("fetch", func(t *testing.T) {
		t.Setenv("TMPDIR", disk)
		f := newForge(t)
		repo := f.hold(alice, "x", []string{id}, url)
		h := newHunter(t, f, nil, nil)
		if got := ask(t, h, url); got.Outcome != abi.OutcomeUnspecified || got.Missing != 1 || !strings.Contains(got.Reason, "No space left on device") {
			t.Errorf("with a full disk: %s, %+v", OutcomeName(got.Outcome), got)
		}
		nothingLanded(t, f, id)
		left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(repo.Dir())), ".trash", "fetch-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("%v is left, %v", left, err)
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, h, url); got.Outcome != abi.OutcomeOK || got.Missing != 0 {
			t.Errorf("with room again: %s, %+v", OutcomeName(got.Outcome), got)
		}
	})
}
