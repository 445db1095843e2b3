package author

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talon/host/plugin/guest"
	"talon/sdk"
	"talon/sdk/abi/manifest"
)

// golang builds with nothing but the standard toolchain. The version is the first that
// has go:wasmexport.
var golang = language{
	name: "go",
	examples: map[string]string{
		manifest.WorldPolicy: "hello-policy", manifest.WorldStrategy: "hello-strategy", manifest.WorldThrottle: "hello-throttle",
	},
	sdk: []string{"go.mod", "abi", "grasp", "internal", "module", "nip19", "policy", "strategy", "throttle"},
	files: map[string]string{
		"go.mod": "module example.com/NAME\n\ngo 1.24\n\nrequire talon/sdk v" + sdk.Version() + "\n\nreplace talon/sdk => ./talon/sdk\n",
	},
	marks: []string{"*.go"},
	find: func(string) (string, []string, error) {
		program, err := exec.LookPath("go")
		if err != nil {
			return "", nil, missing("go", "install Go 1.24 or later (https://go.dev/dl) and put it into the PATH")
		}
		return program, []string{"GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK=off"}, nil
	},
	build: func(_, _, out string) ([]string, string) {
		return []string{"build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out, "."}, out
	},
	said:   func(line string) bool { return !strings.HasPrefix(line, "#") },
	native: []string{"test", "./..."},
}

// goTarget makes the go tool build for WebAssembly; its unit tests run natively.
var goTarget = []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}

// clang builds by the Makefile in the folder.
var clang = language{
	name:     "c",
	examples: map[string]string{manifest.WorldPolicy: "hello-policy-c"},
	sdk:      []string{"c"},
	marks:    []string{"*.c"},
	find: func(string) (program string, _ []string, err error) {
		for _, tool := range []string{"clang", "wasm-ld", "make"} {
			if program, err = exec.LookPath(tool); err != nil {
				return "", nil, missing(tool, "on Debian, apt install clang lld make")
			}
		}
		return program, nil, nil
	},
	build: func(dir, name, _ string) ([]string, string) {
		return []string{"--silent", name + ".wasm"}, filepath.Join(dir, name+".wasm")
	},
	said: func(line string) bool {
		return strings.Contains(line, "error:") || strings.HasPrefix(line, "make: ***")
	},
}

const rustTarget = "wasm32-unknown-unknown"

var rust = language{
	name: "rust",
	examples: map[string]string{
		manifest.WorldPolicy: "hello-policy-rust", manifest.WorldStrategy: "hello-strategy-rust", manifest.WorldThrottle: "hello-throttle-rust",
	},
	taken: "talon",
	sdk:   []string{"rust"},
	marks: []string{"Cargo.toml"},
	find:  findRust,
	build: func(dir, _, _ string) ([]string, string) {
		target := filepath.Join(dir, "target")
		return []string{"build", "--quiet", "--offline", "--release", "--target", rustTarget, "--target-dir", target},
			filepath.Join(target, rustTarget, "release", "*.wasm")
	},
	said: func(line string) bool { return strings.HasPrefix(line, "error") },
}

// findRust looks for a rustc that has the target, with its own cargo: the first one in
// the PATH may be one without.
func findRust(string) (program string, env []string, err error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		out, err := exec.Command(filepath.Join(dir, "rustc"), "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if list, err := os.ReadDir(strings.TrimSpace(string(out))); err != nil || len(list) == 0 {
			continue
		}
		if program, err := exec.LookPath(filepath.Join(dir, "cargo")); err == nil {
			return program, []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")}, nil
		}
	}
	return "", nil, missing("rustc with cargo and the target "+rustTarget,
		"on Debian, apt install cargo rustc libstd-rust-dev-wasm32; elsewhere, rustup target add "+rustTarget)
}

// assemblyscript builds with the compiler that npm has put into the folder.
var assemblyscript = language{
	name:     "assemblyscript",
	examples: map[string]string{manifest.WorldPolicy: "hello-policy-assemblyscript"},
	taken:    "talon-policy",
	sdk:      []string{"assemblyscript"},
	first:    "npm install",
	marks:    []string{"asconfig.json"},
	find: func(dir string) (program string, _ []string, err error) {
		for _, tool := range []string{"node", "npm"} {
			if program, err = exec.LookPath(tool); err != nil {
				return "", nil, missing(tool, "on Debian, apt install nodejs npm")
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "node_modules", ".bin", "asc")); err != nil {
			return "", nil, missing("asc", "run npm install in "+dir+" once, which fetches it")
		}
		return program, []string{"npm_config_offline=true", "npm_config_update_notifier=false"}, nil
	},
	build: func(dir, name, _ string) ([]string, string) {
		return []string{"run", "--silent", "build"}, filepath.Join(dir, name+".wasm")
	},
	said: func(line string) bool { return strings.HasPrefix(line, "ERROR") },
}

func missing(tool, remedy string) error {
	return fmt.Errorf("the compiler is missing, there is no %s: %s", tool, remedy)
}

// cache keeps compiled code between commands, so that each need not compile the
// same module again. Processes take turns with it.
type cache struct {
	dir  string
	lock *os.File // nil: the folder is this process's own
}

// openCache opens the folder of the user's, or else one that goes away.
func openCache() (*cache, error) {
	if base, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(base, "talon", "modules")
		if os.MkdirAll(dir, 0o700) == nil {
			if f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
				return &cache{dir, f}, nil
			}
		}
	}
	dir, err := os.MkdirTemp("", "talon-modules-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for compiled code: %w", err)
	}
	return &cache{dir: dir}, nil
}

// Load loads a module, with its machine code from the cache of the commands.
func Load(ctx context.Context, wasm []byte, o guest.Options) (m *guest.Module, err error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	o.CacheDir = c.dir
	err = c.hold(func() (err error) {
		m, err = guest.Load(ctx, wasm, o)
		return err
	})
	return m, cmpErr(err, c.close()) // the code is mapped, or in memory
}

// hold calls f while no other process uses the folder.
func (c *cache) hold(f func() error) error {
	if c.lock != nil {
		if err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX); err != nil {
			return fmt.Errorf("lock the folder of compiled code: %w", err)
		}
		defer syscall.Flock(int(c.lock.Fd()), syscall.LOCK_UN)
	}
	return f()
}

// close bounds the folder, or removes one of this process.
func (c *cache) close() error {
	if c.lock == nil {
		return os.RemoveAll(c.dir)
	}
	err := c.hold(func() error { return guest.PruneCache(c.dir) })
	if e := c.lock.Close(); err == nil {
		err = e
	}
	return err
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the processor time that another process has used, without its children. It
// is 0 where the system does not tell.
func cpuOf(pid int) time.Duration {
	// The clock of a process (clock_getcpuclockid): the inverted number, and what is
	// counted, which is 2 for the scheduler's own figure.
	const scheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
