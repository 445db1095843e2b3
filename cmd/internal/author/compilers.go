package author

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
